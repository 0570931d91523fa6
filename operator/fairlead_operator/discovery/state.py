"""State of the discovery of one server, and how often servers are asked. Declarations only."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from fairlead_api.documents.catalog import Endpoint, Refreshed
from fairlead_api.v1alpha1.causes import Cause
from fairlead_operator.discovery.listing import KeptListing
from fairlead_operator.ports import ConditionVerdict
from fairlead_operator.workqueue import ItemBackoff

STILL_SILENT: Final = (
    "its process runs, and has not answered: wait where a first start still fetches something; else run its command by "
    "hand, to see whether it waits for input, or serves HTTP and not stdio"
)
ENDED: Final = frozenset({Cause.START_FAILED, Cause.START_TIMEOUT, Cause.PROCESS_EXITED, Cause.TIMEOUT})
"""Failures of a server on stdio of which its process may have printed why."""


@dataclass(frozen=True)
class DiscoveryTarget:
    """Server as it is asked; an answer of another one does not count."""

    uid: str
    endpoint: Endpoint
    credential_hash: str
    revision: str
    """Revision of the workload; changes when it is replaced or comes back."""


@dataclass(frozen=True)
class DiscoveryFailure:
    """A discovery that brought nothing: `reason` is that of the wire's error tree."""

    reason: str
    message: str
    words: str | None = None
    """Last words of its process, where it had any; None while nobody looked for them."""

    @property
    def wants_words(self) -> bool:
        """Whether the log of its process may say more, and nobody looked yet."""
        return self.words is None and self.reason in ENDED

    @property
    def is_silence(self) -> bool:
        """Whether its process was started and has said nothing yet."""
        return self.reason == Cause.SILENT

    def verdict(self) -> ConditionVerdict:
        """Becomes the condition Verified."""
        if self.is_silence:
            return ConditionVerdict(None, Cause.SILENT, STILL_SILENT)
        try:
            cause = Cause(self.reason)
        except ValueError:
            cause = Cause.MCP_ERROR
        message = f"{self.message}; the last words in its log: {self.words}" if self.words else self.message
        return ConditionVerdict(False, cause, message)


@dataclass
class DiscoveryState:
    """State of the discovery of one server."""

    subject: DiscoveryTarget
    listing: KeptListing | None = None
    """The last good answer to this subject."""
    listed: KeptListing | None = None
    """The last good answer without the tools behind client capabilities."""
    whole: bool = False
    """Whether an answer waits for the comparison: on a pinned server, tools that come later are held back."""
    failure: DiscoveryFailure | None = None
    """Set while the last try failed."""
    failures: int = 0
    silent_since: float | None = None
    """When it was asked first of the discoveries in which its process said nothing; None where the last one is none."""
    due: float = 0.0
    """On the monotonic clock."""
    asked_at: float = float("-inf")
    """When it was asked last, on the same clock."""
    stale: bool = False
    """A change was announced after it was asked."""
    announced: dict[str, str] = field(default_factory=dict)
    """Lists that it said have changed, to the time of the last such announcement (RFC 3339)."""
    hinted: bool = False
    """The next discovery is one that an announcement asks for."""
    credit: float = 0.0
    """Announcements that are followed at once, from `credited` on growing by one per floor."""
    credited: float = float("-inf")
    up: float = float("-inf")
    """When it answered for the first time after a failure."""
    losses: int = 0
    """How often it was lost without having been up for `DiscoveryOptions.stable` seconds in between."""
    held: float = float("-inf")
    """A server that failed is not asked before."""
    wanted: bool = False
    """Somebody asked for a discovery that has not begun yet."""
    answering: str = ""
    """When the discovery that answers such a request began; empty for any other."""
    refreshed: Refreshed | None = None
    """The last answer to such a request."""
    task: asyncio.Task[None] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class DiscoveryOptions:
    """Seconds. `timeout` bounds one discovery as a whole; `floor` bounds the interval that a server may ask for.

    An announcement is followed `prompt` seconds after the discovery before, `burst` times in a row; a server that goes
    on announcing is asked once per floor.
    """

    timeout: float = 60.0
    floor: float = 10.0
    prompt: float = 0.25
    burst: int = 8
    jitter: float = 0.1
    retry: ItemBackoff = field(default_factory=lambda: ItemBackoff(first=1.0, limit=60.0))
    stable: float = 60.0
    hold: ItemBackoff = field(default_factory=lambda: ItemBackoff(first=2.0, limit=60.0))
    """How long a server that was lost `spare` times in a row, never up for `stable`, is left alone after a loss."""
    spare: int = 2
