"""The ring buffer of packed ends of attempts returns the values that were added."""

from __future__ import annotations

import tracemalloc

import pytest

from fairlead_api.reports import BAD, NEUTRAL, OK, UNREADABLE
from fairlead_gateway.reports import samples
from fairlead_gateway.reports.samples import FIRST_CAPACITY, Ring


@pytest.mark.parametrize("capacity", [5, FIRST_CAPACITY, FIRST_CAPACITY + 1, 20])
@pytest.mark.parametrize("ended", [0, 1, 4, 5, 6, 8, 9, 10, 13, 19, 20, 21, 47])
def test_the_last_that_ended_are_told_in_order_and_exactly(capacity: int, ended: int) -> None:
    ring = Ring(capacity)
    attempts = [
        (number, number, 0.1 + number, 0.25 * number, (OK, BAD, NEUTRAL, UNREADABLE)[number % 4])
        for number in range(1, ended + 1)
    ]
    for attempt in attempts:
        ring.add(*attempt)
    assert list(ring.since(0)) == [attempt[1:] for attempt in attempts[-capacity:]]
    assert list(ring.since(4)) == [attempt[1:] for attempt in attempts[-capacity:] if attempt[0] > 4]
    assert ring.last == ended


def test_large_numbers_and_times_are_told_with_seven_digits() -> None:
    ring = Ring(4)
    for took in (0.0, 1.5e-4, 123456.7, 8.64e7, float("inf")):
        ring.add(1 << 60, (1 << 61) + 1, 1.7e9 + 0.001, took, BAD)
        [*_, (number, ended, told, outcome)] = ring.since(0)
        assert (number, ended, outcome) == ((1 << 61) + 1, 1.7e9 + 0.001, BAD)
        assert told == pytest.approx(took, rel=1e-7)


@pytest.mark.parametrize(("attempts", "most"), [(1, 500), (FIRST_CAPACITY, 500), (200, 3_100)])
def test_the_bytes_of_a_ring_follow_from_how_often_a_tool_is_called(attempts: int, most: int) -> None:
    # a margin for allocations of other threads
    places = [tracemalloc.Filter(True, __file__), tracemalloc.Filter(True, samples.__file__)]
    tracemalloc.start()
    try:
        rings = [Ring(100) for _ in range(50)]
        for each in rings:
            for number in range(attempts):
                each.add(1 << 40, number, 1e9 + number, 0.5, OK)
        taken = sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces(places).traces)
        assert 100 < taken / len(rings) < most
    finally:
        tracemalloc.stop()
