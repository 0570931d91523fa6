"""Diagonals of matrices: cells that have every value of every axis, or every pair of values, with as few as will do.

A test that is marked `diagonal(strength)` runs with these parameters at a merge; all others are marked `nightly`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations
from typing import Final

import pytest

STRENGTH: Final = 2
"""Pairs, unless the mark says otherwise: most faults of a combination need no third value."""


def diagonal(cells: Sequence[Sequence[Hashable]], strength: int) -> set[int]:
    """Indices of cells that together have every combination of `strength` values which any cell has.

    Cells with more new combinations are taken first, in their order: not always the fewest, and the same every time.
    """
    combined = [
        {tuple((axis, cell[axis]) for axis in axes) for axes in combinations(range(len(cell)), strength)}
        for cell in cells
    ]
    missing = set().union(*combined)
    kept: set[int] = set()
    for wanted in range(max(map(len, combined), default=0), 0, -1):
        for index, covers in enumerate(combined):
            if len(covers & missing) >= wanted:
                kept.add(index)
                missing -= covers
    return kept


def leave_to_the_night(items: Iterable[pytest.Item]) -> None:
    """Mark as `nightly` what is off the diagonal of its test."""
    matrices: defaultdict[tuple[str, int], list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and (mark := item.get_closest_marker("diagonal")):
            strength = mark.args[0] if mark.args else STRENGTH
            matrices[item.nodeid.partition("[")[0], strength].append(item)
    for (_, strength), functions in matrices.items():
        kept = diagonal([_values(function) for function in functions], strength)
        for index, function in enumerate(functions):
            if index not in kept:
                function.add_marker("nightly")


def _values(function: pytest.Function) -> list[Hashable]:
    """Values of the axes, in the order of their names."""
    params = function.callspec.params
    return [_comparable(params[name]) for name in sorted(params)]


def _comparable(value: object) -> Hashable:
    """The value, or its text where it cannot be hashed."""
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value
