"""Conditions in SQL for rows by their number. Pure module."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MAX_PARTS: Final = 256
"""Parts of a condition; one of thousands takes longer to read than the rows that it saves."""


def ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Runs of consecutive numbers, ascending, each with its first and its last."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and number <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def condition(column: str, runs: list[tuple[int, int]]) -> str:
    """A condition that holds for these numbers, at least one, and for others between them where there are more than
    `MAX_PARTS` runs.
    """
    if len(runs) > MAX_PARTS:
        runs = [(runs[0][0], runs[-1][1])]
    single = [str(first) for first, last in runs if first == last]
    parts = [f"({column} >= {first} AND {column} <= {last})" for first, last in runs if first != last]
    if single:
        parts.append(f"{column} IN ({', '.join(single)})")
    return " OR ".join(parts)
