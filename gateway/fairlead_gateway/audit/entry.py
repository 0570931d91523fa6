"""Entry of the audit log, as the path of a call leaves it.

Pure module. Made in the loop, turned into a line by `audit.lines` in a thread: it holds references and numbers, and
nothing is formatted for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec
from msgspec import Raw

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.tracing.spans import SpanIds

Decision = Literal["allowed", "denied", "limited", "refused"]
ALLOWED: Final = "allowed"
"""It went, or was to go, to its server."""
DENIED: Final = "denied"
"""The caller has no permission, or does not know of such a tool."""
LIMITED: Final = "limited"
"""They may, but not so many."""
REFUSED: Final = "refused"
"""The gateway kept it from the server for another reason, which `outcome` names."""


class AuditedCall(msgspec.Struct, gc=False):
    """A request for a tool, a prompt or a resource that is over."""

    method: str
    tool: str
    """The server's own name of it; without a server what the caller asked for."""
    params: Mapping[str, Raw]
    outcome: str
    """As in `AuditEntry`; empty where all is well."""
    server: ServerKey | None = None
    """None for a tool of the gateway's own, and for a name that the caller is not shown."""
    seconds: float = 0.0
    size: int = 0
    """Bytes of the result."""
    limited: str = ""
    """Limit that refused it."""
    denied: str = ""
    """Rules of policies that did."""
    span: SpanIds | None = None
    """Its own, where that is exported."""


class ModelUse(msgspec.Struct, frozen=True):
    """Part of a model in one request to the endpoints in front of models."""

    provider: str
    """By its name in the configuration; empty where none was asked."""
    model: str
    rounds: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    tools: tuple[str, ...] = ()
    """Those that were called here, in their order."""


class AuditEntry(msgspec.Struct, gc=False):
    """One line to be. `at` is in seconds since the epoch, `seconds` how long it took."""

    at: float
    decision: Decision
    identity: Identity
    address: str
    method: str
    tool: str = ""
    """The server's own name of it; what was asked for where there is no such tool."""
    server: ServerKey | None = None
    outcome: str = ""
    """`ok`, `tool_error`, a code of the contract, or the number of a JSON-RPC error."""
    reason: str = ""
    """Which policy and rule, or which limit."""
    seconds: float = 0.0
    result_bytes: int = 0
    traceparent: bytes = b""
    meta: Raw | None = None
    """`_meta` of the request, where a trace may be named in it."""
    arguments: Raw | None = None
    arguments_bytes: int = 0

    status: int = 0
    """HTTP status, where the request was turned away before it became an operation."""
    model: ModelUse | None = None
    """Where a model was asked."""
    administers: bool = False
    """Whether it changes something of the installation: `method` says what, `tool` of which name."""
    span: SpanIds | None = None
    """Span of the call, where it is exported."""
    times: int = 0
    """Denials that the line stands for, where it stands for several that came in a crowd."""

    @property
    def event(self) -> Literal["call", "model", "request", "admin"]:
        """Kind of the entry: a call, a request to models, one that was turned away, or a change of the installation."""
        if self.administers:
            return "admin"
        return "request" if self.status else "call" if self.model is None else "model"

    @property
    def weight(self) -> int:
        """Bytes of it that a client chose, about."""
        meta, arguments = self.meta, self.arguments
        sent = (0 if meta is None else len(meta)) + (0 if arguments is None else len(arguments))
        return sent + len(self.tool) + len(self.traceparent)
