"""Remembers failed grants, so that a burst of calls does not cause a burst of token requests. No I/O; the clock is a
parameter.

A failure is remembered for 1 s; this time doubles with each further failure, up to 5 s. Failures are remembered per
person and scopes, or for everybody if the person is not the cause. A newer subject token of a person is tried at once,
unless the failure applies to everybody.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from fairlead_mcp.oauth.errors import GrantFailed
from fairlead_mcp.oauth.subject import TokenSubject

RequestKey: TypeAlias = tuple[bytes, frozenset[str]]
"""Key of the person, and all requested scopes."""
FIRST_PAUSE: Final = 1.0
"""Seconds for which a first failure is remembered."""
LONGEST_PAUSE: Final = 5.0
"""Maximum seconds for which a failure is remembered."""
MAX_PER_PERSON: Final = 8
"""Maximum number of failures of one person, each for other scopes."""


class _Failure(NamedTuple):
    error: GrantFailed
    until: float
    pause: float
    subject: int
    """Hash of the subject token."""


_NONE: Final[Mapping[frozenset[str], _Failure]] = MappingProxyType({})


class GrantFailures:
    """Failures of at most `max_persons` persons, and MAX_PER_PERSON of each. `clock` returns monotonic seconds."""

    def __init__(self, max_persons: int, clock: Callable[[], float]) -> None:
        self._max_persons = max_persons
        self._clock = clock
        self._by_person: OrderedDict[bytes, OrderedDict[frozenset[str], _Failure]] = OrderedDict()
        """Failures of each person by scopes, the latest last. The person whose last failure is the oldest is first."""
        self._everybody: _Failure | None = None

    def find(self, key: RequestKey, subject: TokenSubject) -> GrantFailed | None:
        """A copy of the remembered failure, to be raised instead of another token request; None if there is none."""
        now = self._clock()
        if self._everybody is not None and now < self._everybody.until:
            return self._everybody.error.copy()
        failure = self._by_person.get(key[0], _NONE).get(key[1])
        if failure is None or now >= failure.until or failure.subject != hash(subject.token):
            return None
        return failure.error.copy()

    def note_failure(self, key: RequestKey, subject: TokenSubject, error: GrantFailed) -> None:
        """Remember the failure of a grant."""
        if error.for_everybody:
            self._everybody = self._next_failure(self._everybody, subject, error)
            return
        person, scopes = key
        failures = self._by_person.setdefault(person, OrderedDict())
        previous = failures.pop(scopes, None)
        if previous is not None and previous.subject != hash(subject.token):
            previous = None
        failures[scopes] = self._next_failure(previous, subject, error)
        self._by_person.move_to_end(person)
        if len(failures) > MAX_PER_PERSON:
            failures.popitem(last=False)
        if len(self._by_person) > self._max_persons:
            self._by_person.popitem(last=False)

    def note_success(self, key: RequestKey) -> None:
        """Forget the failures for everybody, and the failures of this person and these scopes."""
        self._everybody = None
        person, scopes = key
        failures = self._by_person.get(person)
        if failures is not None:
            failures.pop(scopes, None)
            if not failures:
                del self._by_person[person]

    def forget(self, person: bytes) -> None:
        """Forget all failures of a person."""
        self._by_person.pop(person, None)

    def _next_failure(self, previous: _Failure | None, subject: TokenSubject, error: GrantFailed) -> _Failure:
        pause = FIRST_PAUSE if previous is None else min(2 * previous.pause, LONGEST_PAUSE)
        return _Failure(error.copy(), self._clock() + pause, pause, hash(subject.token))
