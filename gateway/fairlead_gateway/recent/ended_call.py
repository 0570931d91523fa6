"""A finished call, which is stored as a tuple and read as an object."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import msgspec

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.identity import ANONYMOUS, Identity
from fairlead_gateway.recent.phases import CallPhase

MAX_NAME: Final = 256
"""Maximum number of characters of a tool name, an agent or a principal."""
MAX_MESSAGE: Final = 300
MAX_ADDRESS: Final = 64


class StoredCaller(NamedTuple):
    """The part of an `Identity` that is stored with calls; the claims are left out, because they may be large."""

    owner: str
    """`Identity.owner` of the principal; empty for anonymous callers."""
    principal: str
    agent: str
    """Name of the agent in policies; empty if the caller has no such name."""
    characters: int
    """Total number of characters of the strings."""

    @classmethod
    def of(cls, identity: Identity) -> StoredCaller:
        owner, principal, agent = identity.owner, identity.principal[:MAX_NAME], (identity.agent or "")[:MAX_NAME]
        return cls(owner, principal, agent, len(owner) + len(principal) + len(agent))


NOBODY: Final = StoredCaller.of(ANONYMOUS)


class EndedCall(msgspec.Struct, frozen=True):
    """A finished call. Times are in seconds of the gateway's clock."""

    started_at: float
    ended_at: float
    sent_at: float
    """Start of the last attempt; negative if there was no attempt, or if `trail` has the attempt."""
    answered_at: float
    """End of the attempt that began at `sent_at`; negative if the end of the call aborted it."""
    method: str
    name: str
    """Name of the tool at the server; for other requests, the requested name or URI."""
    server: ServerKey | None
    """Server of the tool; None for the gateway's built-in tools, and for unknown names."""
    outcome: str
    """Outcome as in the audit log; empty for a success."""
    caller: StoredCaller
    address: str
    tier: str | None
    trace_id: str
    """32 hexadecimal digits; empty without a trace."""
    arguments_bytes: int
    result_bytes: int
    arguments: bytes | None = None
    """Raw JSON; None unless the audit log records arguments too, and empty if they are too large to be stored."""
    refusal: CallRefusal | None = None
    """Why the gateway refused the call; None for any other call."""
    trail: tuple[CallPhase, ...] = ()
    """Phases that were recorded in addition to the attempt between `sent_at` and `answered_at`, in order."""

    @property
    def seconds(self) -> float:
        """Duration of the call for its client."""
        return self.ended_at - self.started_at

    @property
    def hidden(self) -> bool:
        """Whether the client may not see the tool, so that only administrators may see its server."""
        return self.refusal is not None and self.refusal.hidden


class CallRefusal(NamedTuple):
    """Why the gateway refused a call."""

    message: str = ""
    """Message to the client."""
    reason: str = ""
    """Policy and rule that denied the call."""
    limit: str = ""
    """Scope of the limit that was exceeded: `agent`, `policy`, `tool` or `server`; empty if no limit was exceeded."""
    hidden: bool = False
    """Whether the client may not see the tool."""

    @property
    def weight(self) -> int:
        """Upper bound of the object's size in bytes."""
        return 400 + 4 * (len(self.message) + len(self.reason))

    @classmethod
    def cut(cls, message: str, reason: str, limit: str = "", *, hidden: bool = False) -> CallRefusal:
        """Create an object with texts cut to `MAX_MESSAGE` characters."""
        return cls(message[:MAX_MESSAGE], reason[:MAX_MESSAGE], limit, hidden)


PackedCall: TypeAlias = tuple[
    float,
    float,
    float,
    float,
    str,
    str,
    ServerKey | None,
    str,
    StoredCaller,
    str,
    str | None,
    str,
    int,
    int,
    bytes | None,
    CallRefusal | None,
    tuple[CallPhase, ...],
]
"""Members of an `EndedCall` in order. Creating a tuple takes a fifth of the time that creating an object takes."""
