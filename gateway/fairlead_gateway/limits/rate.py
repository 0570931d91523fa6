"""Rate limit by the generic cell rate algorithm (GCRA, ITU-T I.371).

Its state is one number: the time up to which the admitted calls would reach if they were evenly spread. Pure module;
`limits.redis_rates` synchronizes rates with other replicas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fairlead_gateway.limits.limiter import DayAccount

MINUTE: Final = 60.0
_TOLERANCE: Final = 1e-9
"""Tolerance in seconds for rounding errors of floating-point sums."""


class Sharing:
    """State of one gateway for synchronizing its limits with other replicas."""

    __slots__ = ("blocked", "days", "dirty")

    def __init__(self) -> None:
        self.dirty: list[Rate] = []
        """Rates with calls that are not synchronized yet. Each rate occurs once."""
        self.days: list[DayAccount] = []
        """Accounts of tokens that have to be synchronized. Each account occurs once."""
        self.blocked = 0.0
        """Seconds of `Retry-After` while all calls are refused because limits cannot be synchronized; else 0."""


class Rate:
    """Limit of `calls` per `seconds`, evenly spread. After a pause, `burst` calls are admitted at once; by default, all
    calls of a period, but at least one call. Times are in seconds of any monotonic clock.
    """

    __slots__ = ("_sharing", "_spread_end", "calls", "name", "room", "step", "unsettled")

    def __init__(
        self, calls: float, seconds: float, name: str = "", sharing: Sharing | None = None, burst: int | None = None
    ) -> None:
        """Create the limit; with `sharing`, `name` is its name among replicas. Raises ValueError if `calls` or
        `seconds` is not positive.
        """
        if calls <= 0 or seconds <= 0:
            raise ValueError(f"{calls:g} calls in {seconds:g} s are not a valid rate")
        self.calls = calls
        self.step = seconds / calls
        """Seconds per call."""
        self.room = max(seconds if burst is None else burst * self.step, self.step)
        """Maximum seconds by which admitted calls may be ahead of an even spread."""
        self.name = name
        self.unsettled = 0
        """Number of calls that were admitted since the last synchronization."""
        self._sharing = sharing
        self._spread_end = 0.0
        """Time up to which the admitted calls would reach if they were evenly spread."""

    @property
    def blocked(self) -> bool:
        """Whether all calls are refused because the rate cannot be synchronized with other replicas."""
        return self._sharing is not None and self._sharing.blocked > 0

    def take(self, now: float) -> float:
        """Admit one call and return 0; if it cannot be admitted, return the seconds after which a call will be
        admitted."""
        spread_end = self._spread_end
        spread_end = (spread_end if spread_end > now else now) + self.step
        excess = spread_end - now - self.room
        if excess > _TOLERANCE:
            return excess
        sharing = self._sharing
        if sharing is not None:
            if sharing.blocked:
                return sharing.blocked
            if not self.unsettled:
                sharing.dirty.append(self)
            self.unsettled += 1
        self._spread_end = spread_end
        return 0.0

    def give_back(self) -> None:
        """Take back a call that was just admitted but will not be made."""
        self._spread_end -= self.step
        if self.unsettled:
            self.unsettled -= 1

    def seconds_ahead(self, now: float) -> float:
        """Seconds by which admitted calls are ahead of an even spread; 0 in the initial state."""
        return max(0.0, self._spread_end - now)

    def to_settle(self, now: float) -> int:
        """Take the calls that are not synchronized yet; they then count as synchronized. The result is at most the
        number of calls that are ahead of an even spread now: after an outage of Redis, older calls no longer count
        against the limit.
        """
        max_calls = int(self.seconds_ahead(now) / self.step + 0.5)
        calls, self.unsettled = min(self.unsettled, max_calls), 0
        return calls

    def settle(self, ahead: float, now: float) -> None:
        """Set the common state of all replicas. `ahead` is the number of seconds by which their calls are ahead of an
        even spread, without the calls that this replica has admitted since `to_settle`.
        """
        self._spread_end = now + ahead + self.unsettled * self.step
