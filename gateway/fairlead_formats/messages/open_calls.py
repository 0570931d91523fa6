"""Matching of results with calls: by id, or by name and order where a result has no id. Pure module."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Generic, Protocol, TypeVar

import msgspec

from fairlead_formats.messages.call import ModelCall, substitute_id


class CallReference(Protocol):
    """A result that says which call it belongs to."""

    @property
    def id(self) -> str:
        """Id of the call; empty if the format has none."""

    @property
    def name(self) -> str:
        """Name of the tool; empty if the format does not repeat it."""


Result = TypeVar("Result", bound=CallReference)


class CallResult(msgspec.Struct, Generic[Result], frozen=True):
    """A call and its result."""

    index: int
    """Index of the call among all that were added."""
    call: ModelCall
    result: Result


class OpenCalls:
    """Calls that have no result yet, in order. Matching all results of a conversation takes O(n log n) time."""

    def __init__(self, calls: Iterable[ModelCall] = ()) -> None:
        self._calls: list[ModelCall | None] = []
        """None in place of a call whose result was taken."""
        self._indexes: dict[str, deque[int]] = {}
        """Indexes in `_calls`, by each key with which a result may identify a call (`_keys`)."""
        self._open = 0
        self.add(calls)

    def __len__(self) -> int:
        """Number of calls without a result."""
        return self._open

    def add(self, calls: Iterable[ModelCall]) -> None:
        """Add calls without results."""
        for call in calls:
            for key in dict.fromkeys(_keys(call)):
                self._indexes.setdefault(key, deque()).append(len(self._calls))
            self._calls.append(call)
            self._open += 1

    def take(self, results: Sequence[Result]) -> tuple[list[CallResult[Result]], list[Result]]:
        """Match results with open calls. Returns the calls that now have a result, in order, and the results without a
        call.
        """
        unused_results: dict[str, deque[int]] = {}
        for index, result in enumerate(results):
            unused_results.setdefault(result.id or f"\0{result.name}", deque()).append(index)
        heads: list[tuple[int, str]] = []
        """Heap with the first open call of each key, so that the next call in order is found without a scan."""
        for key in unused_results:
            self._push_first(heads, key)
        matched: list[CallResult[Result]] = []
        used_results: set[int] = set()
        while heads:
            index, key = heappop(heads)
            call = self._calls[index]
            if call is not None and unused_results[key]:
                result_index = next(unused_results[key].popleft() for key in _keys(call) if unused_results.get(key))
                matched.append(CallResult(index, call, results[result_index]))
                used_results.add(result_index)
                self._calls[index] = None
                self._open -= 1
            if unused_results[key]:
                self._push_first(heads, key)
        return matched, [result for index, result in enumerate(results) if index not in used_results]

    def _push_first(self, heads: list[tuple[int, str]], key: str) -> None:
        indexes = self._indexes.get(key, deque())
        while indexes and self._calls[indexes[0]] is None:
            indexes.popleft()
        if indexes:
            heappush(heads, (indexes[0], key))


def _keys(call: ModelCall) -> Iterator[str]:
    """Keys by which a result may identify a call, the most reliable first: its id, its substitute id, its names.
    Results without id and name have the last key.
    """
    yield call.id
    yield substitute_id(call.id)
    yield f"\0{call.wire_name}"
    yield f"\0{call.name}"
    yield "\0"
