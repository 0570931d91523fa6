"""Memory of failed grants, so that a burst of calls does not become a burst of grants. No I/O; the clock is a
parameter.

A failure is remembered for 1 s, then for twice as long each time up to 5 s: per person and scopes, or for everybody if
the person is not its cause. A person's newer subject token is tried at once, unless the failure is everybody's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from fairlead_mcp.oauth.errors import GrantFailed
from fairlead_mcp.oauth.subject import TokenSubject

FlightKey: TypeAlias = tuple[bytes, frozenset[str]]
"""Key of the person, and all scopes that are requested."""
FIRST_PAUSE: Final = 1.0
"""Seconds."""
LONGEST_PAUSE: Final = 5.0
"""Seconds."""
MAX_PER_PERSON: Final = 8
"""Limit on the failures of one person, each of other scopes."""


class _Failure(NamedTuple):
    error: GrantFailed
    until: float
    pause: float
    subject: int
    """Hash of the subject token."""


_NONE: Final[Mapping[frozenset[str], _Failure]] = MappingProxyType({})


class GrantFailures:
    """Failures of at most `most` users, and MAX_PER_PERSON of each. `clock` is in monotonic seconds."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._by_person: OrderedDict[bytes, OrderedDict[frozenset[str], _Failure]] = OrderedDict()
        """Failures of a person by scopes, the latest last. The person whose last failure is oldest is first."""
        self._everybody: _Failure | None = None

    def find(self, key: FlightKey, subject: TokenSubject) -> GrantFailed | None:
        """The failure for which no grant should be tried now, as a copy to raise."""
        now = self._clock()
        if self._everybody is not None and now < self._everybody.until:
            return self._everybody.error.again()
        failure = self._by_person.get(key[0], _NONE).get(key[1])
        if failure is None or now >= failure.until or failure.subject != hash(subject.token):
            return None
        return failure.error.again()

    def note(self, key: FlightKey, subject: TokenSubject, error: GrantFailed) -> None:
        """Remember the failure of a grant."""
        if error.for_everybody:
            self._everybody = self._next(self._everybody, subject, error)
            return
        person, scopes = key
        own = self._by_person.setdefault(person, OrderedDict())
        before = own.pop(scopes, None)
        if before is not None and before.subject != hash(subject.token):
            before = None
        own[scopes] = self._next(before, subject, error)
        self._by_person.move_to_end(person)
        if len(own) > MAX_PER_PERSON:
            own.popitem(last=False)
        if len(self._by_person) > self._most:
            self._by_person.popitem(last=False)

    def succeeded(self, key: FlightKey) -> None:
        """Forget the failures that a successful grant disproves."""
        self._everybody = None
        person, scopes = key
        own = self._by_person.get(person)
        if own is not None:
            own.pop(scopes, None)
            if not own:
                del self._by_person[person]

    def forget(self, person: bytes) -> None:
        """Forget all failures of a person."""
        self._by_person.pop(person, None)

    def _next(self, before: _Failure | None, subject: TokenSubject, error: GrantFailed) -> _Failure:
        pause = FIRST_PAUSE if before is None else min(2 * before.pause, LONGEST_PAUSE)
        return _Failure(error.again(), self._clock() + pause, pause, hash(subject.token))
