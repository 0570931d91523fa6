"""Row conditions match exactly the wanted numbers, and stay short."""

from __future__ import annotations

import sqlite3

from hypothesis import given
from hypothesis import strategies as st

from fairlead_search.row_filter import MAX_PARTS, condition, ranges


@given(st.sets(st.integers(0, 40), min_size=1))
def test_a_condition_holds_for_its_numbers_alone(numbers: set[int]) -> None:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE rows (number INTEGER)")
    database.executemany("INSERT INTO rows VALUES (?)", [(number,) for number in range(41)])
    rows = database.execute(f"SELECT number FROM rows WHERE {condition('number', ranges(numbers))}")
    assert {number for (number,) in rows} == numbers
    database.close()


def test_consecutive_numbers_are_one_run() -> None:
    assert ranges([5, 3, 4, 9]) == [(3, 5), (9, 9)]
    assert ranges([]) == []


def test_a_condition_of_too_many_parts_is_one_range_around_all() -> None:
    runs = ranges(range(0, 4 * MAX_PARTS, 2))
    assert condition("number", runs) == f"(number >= 0 AND number <= {4 * MAX_PARTS - 2})"
