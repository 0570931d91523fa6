"""Entries of the audit log before they are formatted.

Pure module. The event loop creates entries, and `audit.lines` formats them in a thread. An entry holds only references
and numbers, so that its creation is cheap.
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
"""The call was sent to its server, or the attempt to send it failed."""
DENIED: Final = "denied"
"""The caller lacks permission, or the tool does not exist."""
LIMITED: Final = "limited"
"""The caller has permission but has exceeded a limit."""
REFUSED: Final = "refused"
"""The gateway did not send the call for another reason, which `outcome` names."""


class AuditedCall(msgspec.Struct, gc=False):
    """Data for the audit log about a finished request for a tool, prompt or resource."""

    method: str
    tool: str
    """The server's own name of the target; without a server, the name or URI in the request."""
    params: Mapping[str, Raw]
    outcome: str
    """Outcome as in `AuditEntry`; empty for a success."""
    server: ServerKey | None = None
    """Server of the target; None for the gateway's built-in tools, and for names that are unknown or denied to the
    caller."""
    seconds: float = 0.0
    size: int = 0
    """Bytes of the result."""
    exceeded_limit: str = ""
    """Name of the limit that was exceeded; empty if no limit was exceeded."""
    denying_rules: str = ""
    """The policy rules that denied the call; empty if no rule denied it."""
    span: SpanIds | None = None
    """Span of the call, if spans are exported."""


class ModelUse(msgspec.Struct, frozen=True):
    """Use of a model in one request to an LLM endpoint."""

    provider: str
    """Configured name of the provider; empty if no request was sent to a provider."""
    model: str
    rounds: int
    """Number of requests to the provider: the first, and one after each round of tool calls."""
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    tools: tuple[str, ...] = ()
    """Tools that the gateway called, in order."""


class AuditEntry(msgspec.Struct, gc=False):
    """Data of one line of the audit log. `at` is in seconds since the epoch, `seconds` is the duration."""

    at: float
    decision: Decision
    identity: Identity
    address: str
    method: str
    tool: str = ""
    """The server's own name of the target; without a server, the name or URI in the request."""
    server: ServerKey | None = None
    outcome: str = ""
    """`ok`, `tool_error`, a documented code, or the number of a JSON-RPC error."""
    reason: str = ""
    """The policy and rule that denied the call, or the limit that was exceeded."""
    seconds: float = 0.0
    """Duration."""
    result_bytes: int = 0
    traceparent: bytes = b""
    meta: Raw | None = None
    """`_meta` of the request, which may have a trace context."""
    arguments: Raw | None = None
    arguments_bytes: int = 0

    status: int = 0
    """HTTP status of a request that was rejected before its method was known; else 0."""
    model: ModelUse | None = None
    """Use of a model, for a request to an LLM endpoint."""
    administers: bool = False
    """Whether the entry is a change of the installation: `method` is the action, `tool` the name of the changed object.
    """
    grants: bool = False
    """Whether the entry is about an access token of `server` for `identity`: a token was granted, or a call did not get
    one; then `outcome` is the cause.
    """
    span: SpanIds | None = None
    """Span of the call, if spans are exported."""
    times: int = 0
    """Number of denials that the line sums up; 0 for a line about a single denial."""

    @property
    def event(self) -> Literal["call", "model", "request", "admin", "grant"]:
        """Kind of the entry: a call, a request to an LLM endpoint, a rejected request, a change of the installation, or
        an access token of a server.
        """
        if self.administers:
            return "admin"
        if self.grants:
            return "grant"
        return "request" if self.status else "call" if self.model is None else "model"

    @property
    def weight(self) -> int:
        """Approximate bytes of the entry that come from the client."""
        meta, arguments = self.meta, self.arguments
        size = (0 if meta is None else len(meta)) + (0 if arguments is None else len(arguments))
        return size + len(self.tool) + len(self.traceparent)
