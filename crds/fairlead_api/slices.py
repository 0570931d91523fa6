"""Work in slices: a long computation is a generator that yields again and again, and returns its result. Pure.

A gateway interleaves the slices with all other work of its loop (`fairlead_gateway.yielding`); a process with nothing
else to do runs them at once, with `finish`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from itertools import islice
from typing import Any, Final, TypeVar

Made = TypeVar("Made")
Item = TypeVar("Item")
Key = TypeVar("Key")
Value = TypeVar("Value")

SLICE: Final = 256
"""Items of a plain loop between two pauses: about a tenth of a millisecond."""


def finish(steps: Generator[None, None, Made]) -> Made:
    """Take all slices now; what they made."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made: Made = end.value
            return made


def order_in_slices(items: Iterable[Item], key: Callable[[Item], Any]) -> Generator[None, None, list[Item]]:
    """Sort, stably. The longest slice is the last, which passes through all of them once: 0.4 ms for 10,000."""
    rest = iter(items)
    runs = []
    while run := [*islice(rest, SLICE)]:
        runs.append(sorted(run, key=key))
        yield
    while len(runs) > 1:
        merged = []
        for at in range(0, len(runs), 2):
            both = [each for run in runs[at : at + 2] for each in run]
            both.sort(key=key)  # two runs, which it finds and merges
            merged.append(both)
            yield
        runs = merged
    return runs[0] if runs else []


def list_in_slices(items: Iterable[Item]) -> Generator[None, None, list[Item]]:
    """A list of items each of which takes a moment to make."""
    rest, made = iter(items), list[Item]()
    while some := [*islice(rest, SLICE)]:
        made += some
        yield
    return made


def table_in_slices(items: Iterable[tuple[Key, Value]]) -> Generator[None, None, dict[Key, Value]]:
    """A dictionary of pairs, in their order."""
    rest, made = iter(items), dict[Key, Value]()
    while some := [*islice(rest, SLICE)]:
        made.update(some)
        yield
    return made


def invert_in_slices(items: Iterable[tuple[Key, Value]]) -> Generator[None, None, Mapping[Key, list[Value]]]:
    """The values of each key, in their order."""
    made: dict[Key, list[Value]] = {}
    for number, (key, value) in enumerate(items):
        made.setdefault(key, []).append(value)
        if number % SLICE == SLICE - 1:
            yield
    return made


def empty_in_slices(items: list[Item], size: int = SLICE) -> Generator[None, None, None]:
    """Let go of the items of a list, from its end, so many between two pauses."""
    while items:
        del items[-size:]
        yield
