"""Creates SQL conditions that select rows of a table by their numbers. Pure module."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MAX_PARTS: Final = 256
"""Maximum number of ranges in a condition. Parsing thousands of ranges takes longer than reading more rows."""


def ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Group numbers into ascending runs of consecutive numbers; each run is its first and last number."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and number <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def condition(column: str, runs: list[tuple[int, int]]) -> str:
    """Create a condition that selects the numbers of all runs (at least one). With more than `MAX_PARTS` runs, the
    condition also selects numbers between the runs.
    """
    if len(runs) > MAX_PARTS:
        runs = [(runs[0][0], runs[-1][1])]
    single_numbers = [str(first) for first, last in runs if first == last]
    parts = [f"({column} >= {first} AND {column} <= {last})" for first, last in runs if first != last]
    if single_numbers:
        parts.append(f"{column} IN ({', '.join(single_numbers)})")
    return " OR ".join(parts)
