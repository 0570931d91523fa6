"""Diagonals of test matrices: as few cells as possible that contain every value of every axis, or every pair of values.

A test that is marked `diagonal(strength)` runs with these parameters at a merge; all others are marked `nightly`.
`also` is a function of the parameters; the test then also runs for each of its values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations
from typing import Final

import pytest

STRENGTH: Final = 2
"""Default: pairs of values. Most faults of combinations need no third value."""


def diagonal(cells: Sequence[Sequence[Hashable]], strength: int, also: Sequence[Hashable] = ()) -> set[int]:
    """Indices of cells that together contain every combination of `strength` values that occurs in any cell, and each
    value of `also`, which has one value per cell.

    Cells with more new combinations are taken first. Their number is not always minimal, but the result is
    deterministic.
    """
    combined: list[set[Hashable]] = [
        {tuple((axis, cell[axis]) for axis in axes) for axes in combinations(range(len(cell)), strength)}
        for cell in cells
    ]
    for covers, value in zip(combined, also, strict=bool(also)):
        covers.add((value,))
    missing: set[Hashable] = set().union(*combined)
    chosen: set[int] = set()
    for wanted in range(max(map(len, combined), default=0), 0, -1):
        for index, covers in enumerate(combined):
            if len(covers & missing) >= wanted:
                chosen.add(index)
                missing -= covers
    return chosen


def leave_to_the_night(items: Iterable[pytest.Item]) -> None:
    """Mark cells outside of a test's diagonal as `nightly`."""
    matrices: defaultdict[str, list[pytest.Function]] = defaultdict(list)
    marks: dict[str, pytest.Mark] = {}
    for item in items:
        if isinstance(item, pytest.Function) and (mark := item.get_closest_marker("diagonal")):
            name = item.nodeid.partition("[")[0]
            matrices[name].append(item)
            marks[name] = mark
    for name, functions in matrices.items():
        strength = next(iter(marks[name].args), STRENGTH)
        also = marks[name].kwargs.get("also")
        values = [also(**_params(function)) for function in functions] if also else []
        by_day = diagonal([_values(function) for function in functions], strength, values)
        for index, function in enumerate(functions):
            if index not in by_day:
                function.add_marker("nightly")


def _params(function: pytest.Function) -> dict[str, object]:
    """Parameters of a test, without those of plugins, which begin with an underscore."""
    return {name: value for name, value in sorted(function.callspec.params.items()) if not name.startswith("_")}


def _values(function: pytest.Function) -> list[Hashable]:
    """Values of the axes, in the order of their names."""
    return [_comparable(value) for value in _params(function).values()]


def _comparable(value: object) -> Hashable:
    """The value, or its text if it cannot be hashed."""
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value
