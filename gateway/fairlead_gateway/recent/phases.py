"""Phases of a call: what its time went to, from its arrival to its answer.

Pure module. A plain call has three: checks, an attempt at its server, translation of the answer; two numbers say when
they began. What comes between them in other calls is kept in a `CallTrail`, which is made when it is first needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

CHECKS: Final = "checks"
"""The gateway's checks, and its request to the server put together."""
CACHE: Final = "cache"
"""A kept result, or the wait for that of an equal call."""
QUEUE: Final = "queue"
"""A wait for a place at the server."""
SESSION: Final = "session"
"""A session with the server opened."""
ATTEMPT: Final = "attempt"
"""From the request to the server to its answer."""
BACKOFF: Final = "backoff"
"""A wait before another attempt."""
CLIENT: Final = "client"
"""A question of the server at the client."""
TASK: Final = "task"
"""A wait for the task that the server made of the call."""
TRANSLATION: Final = "translation"
"""From the server's answer to the client's: translation, checks, and keeping of the result."""
KINDS: Final = (CHECKS, CACHE, QUEUE, SESSION, ATTEMPT, BACKOFF, CLIENT, TASK, TRANSLATION)

NEVER: Final = -1.0
"""In place of a time that has not come."""
MAX_PHASES: Final = 32
"""Phases that a trail keeps; a call that asks its client again and again has no more."""
_SMALL: Final = 1e-5
"""Seconds between two phases that do not count as one."""


class CallPhase(NamedTuple):
    """One phase. Times are in seconds: of the gateway's clock on the path, from the call's beginning on for readers."""

    kind: str
    begin: float
    end: float
    error: str = ""
    """Error that ended an attempt, by the name of its class."""


class CallTrail:
    """Phases of a call that is not plain, in their order, and the one that it is in."""

    __slots__ = ("_kind", "_since", "phases")

    def __init__(self) -> None:
        self.phases: list[CallPhase] = []
        self._kind = ""
        self._since = NEVER

    def begin(self, kind: str, now: float) -> None:
        """Leave the phase that the call is in for another."""
        self.end(now)
        self._kind = kind
        self._since = now

    def end(self, now: float) -> None:
        """Leave the phase that the call is in; no-op where it is in none."""
        if self._kind:
            self.add(CallPhase(self._kind, self._since, now))
            self._kind = ""

    def add(self, phase: CallPhase) -> None:
        """Keep a phase that is over."""
        if len(self.phases) < MAX_PHASES:
            self.phases.append(phase)


def timeline(
    trail: Sequence[CallPhase], sent: float, answered: float, began: float, ended: float
) -> Iterator[CallPhase]:
    """All phases of a call, without gaps, in seconds from its beginning on. `sent` and `answered`: its last attempt
    that is not in the trail; NEVER for none, and for one that the end of the call cut off.
    """
    phases, seconds = [*trail], ended - began
    if sent >= 0:
        phases.append(CallPhase(ATTEMPT, sent, ended if answered < 0 else answered))
    at, kind = 0.0, CHECKS
    for phase in sorted(phases, key=lambda each: each.begin):
        begin = max(at, min(phase.begin - began, seconds))
        end = max(begin, min(phase.end - began, seconds))
        if begin - at > (_SMALL if at else 0.0):
            yield CallPhase(kind, at, begin)
        else:
            begin = at
        yield CallPhase(phase.kind, begin, end, phase.error)
        at, kind = end, TRANSLATION if phase.kind in (ATTEMPT, CACHE, TASK) else CHECKS
    if seconds > at or not phases:
        yield CallPhase(kind, at, seconds)
