"""Phases of a call, which split its duration.

Pure module. A plain call has three phases: checks, one attempt, and translation of the response. Two timestamps are
enough for these phases: the times at which the attempt was sent, and at which it was answered. The other phases of a
call are recorded in a `CallTrail`, which is created when it is first needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

CHECKS: Final = "checks"
"""Checks of the gateway, and preparation of the request to the server."""
CACHE: Final = "cache"
"""Look-up of a cached result, or wait for the result of an equal call that is in flight."""
CREDENTIAL: Final = "credential"
"""Request for the access token that the call presents to the server."""
QUEUE: Final = "queue"
"""Wait for admission to the server."""
SESSION: Final = "session"
"""Opening of a session with the server."""
ATTEMPT: Final = "attempt"
"""From the request to the server to its response."""
BACKOFF: Final = "backoff"
"""Pause before another attempt."""
CLIENT: Final = "client"
"""Request of the server to the client, such as elicitation."""
TASK: Final = "task"
"""Wait for the task that the server created for the call."""
TRANSLATION: Final = "translation"
"""From the server's response to the client's: translation, checks, and storage of the result."""
KINDS: Final = (CHECKS, CACHE, CREDENTIAL, QUEUE, SESSION, ATTEMPT, BACKOFF, CLIENT, TASK, TRANSLATION)

NEVER: Final = -1.0
"""Stands for a time that is not set."""
MAX_PHASES: Final = 32
"""Maximum number of phases in a trail, even if a server keeps sending requests to the client."""
_MIN_GAP: Final = 1e-5
"""Minimum gap between two phases, in seconds, that is shown as a phase of its own."""


class CallPhase(NamedTuple):
    """One phase. Times are in seconds: in a trail, of the gateway's clock; in a timeline, since the start of the
    call.
    """

    kind: str
    """Kind of the phase, one of `KINDS`."""
    begin: float
    end: float
    error: str = ""
    """Class name of the error that ended an attempt; empty without an error."""


class CallTrail:
    """Recorded phases of a call in order, and its current phase."""

    __slots__ = ("_kind", "_started_at", "phases")

    def __init__(self) -> None:
        self.phases: list[CallPhase] = []
        self._kind = ""
        self._started_at = NEVER

    def begin(self, kind: str, now: float) -> None:
        """End the current phase, and begin a phase of `kind`."""
        self.end(now)
        self._kind = kind
        self._started_at = now

    def end(self, now: float) -> None:
        """End the current phase, if there is one."""
        if self._kind:
            self.add(CallPhase(self._kind, self._started_at, now))
            self._kind = ""

    def add(self, phase: CallPhase) -> None:
        """Record a finished phase, up to `MAX_PHASES`."""
        if len(self.phases) < MAX_PHASES:
            self.phases.append(phase)


def timeline(
    trail: Sequence[CallPhase], sent_at: float, answered_at: float, started_at: float, ended_at: float
) -> Iterator[CallPhase]:
    """All phases of a call without gaps, in seconds since its start.

    `sent_at` and `answered_at` are the start and end of the last attempt. `sent_at` is NEVER if there was no attempt,
    or if `trail` has the attempt; `answered_at` is NEVER if the attempt was aborted.
    """
    phases, seconds = [*trail], ended_at - started_at
    if sent_at >= 0:
        phases.append(CallPhase(ATTEMPT, sent_at, ended_at if answered_at < 0 else answered_at))
    previous_end, kind = 0.0, CHECKS
    for phase in sorted(phases, key=lambda each: each.begin):
        begin = max(previous_end, min(phase.begin - started_at, seconds))
        end = max(begin, min(phase.end - started_at, seconds))
        if begin - previous_end > (_MIN_GAP if previous_end else 0.0):
            yield CallPhase(kind, previous_end, begin)
        else:
            begin = previous_end
        yield CallPhase(phase.kind, begin, end, phase.error)
        previous_end, kind = end, TRANSLATION if phase.kind in (ATTEMPT, CACHE, TASK) else CHECKS
    if seconds > previous_end or not phases:
        yield CallPhase(kind, previous_end, seconds)
