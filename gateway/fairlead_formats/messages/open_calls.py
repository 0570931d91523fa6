"""Calls that wait for their results, matched by id, else by name and order. Pure module."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Generic, Protocol, TypeVar

import msgspec

from fairlead_formats.messages.call import ModelCall, substitute_id


class NamesCall(Protocol):
    """Result that names its call."""

    @property
    def id(self) -> str:
        """Id of the call; empty where the format has none."""

    @property
    def name(self) -> str:
        """Name of the tool; empty where the format does not repeat it."""


Result = TypeVar("Result", bound=NamesCall)


class CallResult(msgspec.Struct, Generic[Result], frozen=True):
    """A call and its result."""

    index: int
    """Position of the call among all that were added."""
    call: ModelCall
    result: Result


class OpenCalls:
    """Calls without results, in their order. Each call and each result is looked at a bounded number of times, however
    many a conversation has.
    """

    def __init__(self, calls: Iterable[ModelCall] = ()) -> None:
        self._calls: list[ModelCall | None] = []
        """None in the place of a call that has its result."""
        self._places: dict[str, deque[int]] = {}
        """Places of calls by what results may name them."""
        self._open = 0
        self.add(calls)

    def __len__(self) -> int:
        """How many calls wait."""
        return self._open

    def add(self, calls: Iterable[ModelCall]) -> None:
        """Wait for the results of more calls."""
        for call in calls:
            for key in dict.fromkeys(_keys(call)):
                self._places.setdefault(key, deque()).append(len(self._calls))
            self._calls.append(call)
            self._open += 1

    def take(self, results: Sequence[Result]) -> tuple[list[CallResult[Result]], list[Result]]:
        """Match results with open calls: the calls that have a result now, in their order, and the results that belong
        to no call.
        """
        unused: dict[str, deque[int]] = {}
        for index, result in enumerate(results):
            unused.setdefault(result.id or f"\0{result.name}", deque()).append(index)
        heads: list[tuple[int, str]] = []
        """Heap of the first open call of each key: calls are taken in their order, and no others are looked at."""
        for key in unused:
            self._push_first(heads, key)
        matched: list[CallResult[Result]] = []
        used: set[int] = set()
        while heads:
            index, key = heappop(heads)
            call = self._calls[index]
            if call is not None and unused[key]:
                given = next(unused[key].popleft() for key in _keys(call) if unused.get(key))
                matched.append(CallResult(index, call, results[given]))
                used.add(given)
                self._calls[index] = None
                self._open -= 1
            if unused[key]:
                self._push_first(heads, key)
        return matched, [result for index, result in enumerate(results) if index not in used]

    def _push_first(self, heads: list[tuple[int, str]], key: str) -> None:
        places = self._places.get(key, deque())
        while places and self._calls[places[0]] is None:
            places.popleft()
        if places:
            heappush(heads, (places[0], key))


def _keys(call: ModelCall) -> Iterator[str]:
    """Keys by which results name a call, the surest first: ids as formats write them, names where they have no ids."""
    yield call.id
    yield substitute_id(call.id)
    yield f"\0{call.wire_name}"
    yield f"\0{call.name}"
    yield "\0"
