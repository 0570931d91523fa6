"""One call that is over: packed, as the path of a call leaves it, and unpacked, as it is read."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import msgspec

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.identity import ANONYMOUS, Identity
from fairlead_gateway.recent.phases import CallPhase

MAX_NAME: Final = 256
"""Characters of a name, of an agent, of a principal."""
MAX_MESSAGE: Final = 300
MAX_ADDRESS: Final = 64


class KeptCaller(NamedTuple):
    """Principal of calls, as far as it is kept with them: an `Identity` may have large claims."""

    owner: str
    """Mark of the principal (`Identity.owner`); empty for anonymous callers."""
    principal: str
    agent: str
    """Name that policies know it by; empty for none."""
    letters: int
    """Characters of its strings."""

    @classmethod
    def of(cls, identity: Identity) -> KeptCaller:
        owner, principal, agent = identity.owner, identity.principal[:MAX_NAME], (identity.agent or "")[:MAX_NAME]
        return cls(owner, principal, agent, len(owner) + len(principal) + len(agent))


NOBODY: Final = KeptCaller.of(ANONYMOUS)


class EndedCall(msgspec.Struct, frozen=True):
    """One call. Times are in seconds of the gateway's clock."""

    began: float
    ended: float
    sent: float
    """When its last attempt began, unless that is in `trail`; below 0 for none."""
    answered: float
    """When that ended; below 0 where the end of the call cut it off."""
    method: str
    name: str
    """The server's own name of the tool; of anything else what was asked for."""
    server: ServerKey | None
    """None for a tool of the gateway's own, and for names that nobody has."""
    outcome: str
    """Empty where all is well; else as in the audit log."""
    caller: KeptCaller
    address: str
    tier: str | None
    trace_id: str
    """32 hexadecimal digits; empty for none."""
    arguments_bytes: int
    result_bytes: int
    arguments: bytes | None = None
    """Where the audit log has them too, raw JSON; empty for such that are too large to be kept."""
    why: CallRefusal | None = None
    trail: tuple[CallPhase, ...] = ()

    @property
    def seconds(self) -> float:
        """Time that its client waited."""
        return self.ended - self.began

    @property
    def hidden(self) -> bool:
        """Whether the client does not know of the tool: its server is for administrators."""
        return self.why is not None and self.why.hidden


class CallRefusal(NamedTuple):
    """Why a call was not answered by its server."""

    message: str = ""
    """Sentence that the client got."""
    reason: str = ""
    """Policy and rule that denied it."""
    limit: str = ""
    """Limit that refused it: that of `agent`, `policy`, `tool` or `server`."""
    hidden: bool = False

    @property
    def weight(self) -> int:
        """Bytes of it, at most."""
        return 400 + 4 * (len(self.message) + len(self.reason))

    @classmethod
    def cut(cls, message: str, reason: str, limit: str = "", *, hidden: bool = False) -> CallRefusal:
        """With texts of a bounded length."""
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
    KeptCaller,
    str,
    str | None,
    str,
    int,
    int,
    bytes | None,
    CallRefusal | None,
    tuple[CallPhase, ...],
]
"""Members of an EndedCall in their order: a tuple is made in a fifth of the time of an object."""
