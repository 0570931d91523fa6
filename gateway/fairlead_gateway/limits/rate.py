"""A rate as one number: when the calls admitted so far would end if they came evenly (GCRA, ITU-T I.371).

Pure module, used by `upstream.guard`.
"""

from __future__ import annotations

from typing import Final

MINUTE: Final = 60.0
_EXACT: Final = 1e-9
"""Seconds that sums of floating point numbers may be off."""


class Rate:
    """So many `calls` in so many `seconds`: evenly, and those of one whole period at once after a pause (at least one
    call). Times are in seconds of any clock that does not go back.
    """

    __slots__ = ("_until", "name", "room", "step", "unsettled")

    def __init__(self, calls: float, seconds: float, name: str = "") -> None:
        """Raises ValueError for a rate of nothing."""
        if calls <= 0 or seconds <= 0:
            raise ValueError(f"{calls:g} calls in {seconds:g} s are no rate")
        self.step = seconds / calls
        """Seconds that one call takes up."""
        self.room = max(seconds, self.step)
        """Seconds of calls that may be ahead of their time."""
        self.name = name
        """What it is called among replicas; empty: it is shared with none."""
        self.unsettled = 0
        """Calls admitted since the other replicas were told."""
        self._until = 0.0

    def take(self, now: float) -> float:
        """Admit one call: 0, or the seconds after which one would be admitted."""
        until = self._until
        until = (until if until > now else now) + self.step
        early = until - now - self.room
        if early > _EXACT:
            return early
        self._until = until
        self.unsettled += 1
        return 0.0

    def give_back(self) -> None:
        """A call that was admitted will not be made."""
        self._until -= self.step
        self.unsettled -= 1

    def ahead(self, now: float) -> float:
        """Seconds of calls that were admitted ahead of their time; 0 for a rate that was never used."""
        return max(0.0, self._until - now)

    def to_settle(self, now: float) -> int:
        """Calls that the others have to be told of, which then count as told. What was admitted while nobody could be
        told is over in the meantime: never more than is ahead now.
        """
        most = int(self.ahead(now) / self.step + 0.5)
        calls, self.unsettled = min(self.unsettled, most), 0
        return max(0, calls)

    def settled(self, ahead: float, now: float) -> None:
        """All replicas together are `ahead` seconds, without what was admitted here since `to_settle`."""
        self._until = now + ahead + self.unsettled * self.step
