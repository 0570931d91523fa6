"""Rate limit as one number: when the calls admitted so far would end if they were evenly spread (GCRA, ITU-T I.371).

Pure module. `limits.shared` settles it with other replicas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fairlead_gateway.limits.limiter import DayAccount

MINUTE: Final = 60.0
_EXACT: Final = 1e-9
"""Seconds that sums of floating point numbers may be off."""


class Sharing:
    """State that the rates of one gateway share where other replicas take part."""

    __slots__ = ("blocked", "days", "dirty")

    def __init__(self) -> None:
        self.dirty: list[Rate] = []
        """Those with calls that the others were not told of, each once."""
        self.days: list[DayAccount] = []
        """Accounts of a day that the others were not told of, or that are to be looked up; each once."""
        self.blocked = 0.0
        """Nothing is admitted while this is set: the seconds after which to come again."""


class Rate:
    """So many `calls` in so many `seconds`: evenly, and after a pause `burst` at once, by default those of one whole
    period (at least one call). Times are in seconds of any clock that does not go back.
    """

    __slots__ = ("_sharing", "_until", "calls", "name", "room", "step", "unsettled")

    def __init__(
        self, calls: float, seconds: float, name: str = "", sharing: Sharing | None = None, burst: int | None = None
    ) -> None:
        """With `sharing`, `name` is what it is called among replicas. Raises ValueError for a rate of nothing."""
        if calls <= 0 or seconds <= 0:
            raise ValueError(f"{calls:g} calls in {seconds:g} s are not a rate")
        self.calls = calls
        self.step = seconds / calls
        """Seconds that one call takes up."""
        self.room = max(seconds if burst is None else burst * self.step, self.step)
        """Seconds of calls that may be ahead of their time."""
        self.name = name
        self.unsettled = 0
        """Calls admitted since the other replicas were told."""
        self._sharing = sharing
        self._until = 0.0

    @property
    def blocked(self) -> bool:
        """Whether nothing is admitted because nobody knows what the other replicas do."""
        return self._sharing is not None and self._sharing.blocked > 0

    def take(self, now: float) -> float:
        """Admit one call: 0, or the seconds after which one would be admitted."""
        until = self._until
        until = (until if until > now else now) + self.step
        early = until - now - self.room
        if early > _EXACT:
            return early
        sharing = self._sharing
        if sharing is not None:
            if sharing.blocked:
                return sharing.blocked
            if not self.unsettled:
                sharing.dirty.append(self)
            self.unsettled += 1
        self._until = until
        return 0.0

    def give_back(self) -> None:
        """A call that was admitted just now will not be made."""
        self._until -= self.step
        if self.unsettled:
            self.unsettled -= 1

    def ahead(self, now: float) -> float:
        """Seconds of calls that were admitted ahead of their time; 0 where it is as if it had never been used."""
        return max(0.0, self._until - now)

    def to_settle(self, now: float) -> int:
        """Calls that the others have to be told of, which then count as told. What was admitted while nobody could be
        told is over in the meantime: never more than is ahead now.
        """
        most = int(self.ahead(now) / self.step + 0.5)
        calls, self.unsettled = min(self.unsettled, most), 0
        return calls

    def settle(self, ahead: float, now: float) -> None:
        """All replicas together are `ahead` seconds, without what was admitted here since `to_settle`."""
        self._until = now + ahead + self.unsettled * self.step
