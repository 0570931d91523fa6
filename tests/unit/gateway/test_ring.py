"""The last ends of attempts, packed: what comes out is what went in."""

from __future__ import annotations

import tracemalloc

import pytest

from fairlead_api.reports import BAD, NEUTRAL, OK
from fairlead_gateway.reports.ring import Ring


@pytest.mark.parametrize("ended", [0, 1, 4, 5, 6, 10, 13])
def test_the_last_that_ended_are_told_in_order_and_exactly(ended: int) -> None:
    ring = Ring(5)
    attempts = [
        (number, number, 0.1 + number, 1e-6 * number, (OK, BAD, NEUTRAL)[number % 3]) for number in range(1, 14)
    ]
    for attempt in attempts[:ended]:
        ring.add(*attempt)
    assert list(ring.since(0)) == [attempt[1:] for attempt in attempts[:ended][-5:]]
    assert list(ring.since(4)) == [attempt[1:] for attempt in attempts[:ended][-5:] if attempt[0] > 4]
    assert ring.last == ended


def test_a_hundred_attempts_of_a_tool_take_less_than_four_kilobytes() -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        rings = [Ring(100) for _ in range(50)]  # so many that what other threads allocate meanwhile is little
        for ring in rings:
            for number in range(200):
                ring.add(1 << 40, number, 1e9 + number, 0.5, OK)
        assert (tracemalloc.get_traced_memory()[0] - before) / len(rings) < 4_000
    finally:
        tracemalloc.stop()
