"""Delays between starts of a process."""

from __future__ import annotations

from fairlead_mcp.backoff import Backoff


def test_delays_double_up_to_the_cap() -> None:
    backoff = Backoff(lambda: 0.0, base=1, cap=8)
    assert [backoff.delay_after(0) for _ in range(5)] == [1, 2, 4, 8, 8]


def test_jitter_takes_away_up_to_a_half() -> None:
    assert Backoff(lambda: 1.0, base=1).delay_after(0) == 0.5


def test_a_stable_life_ends_the_row_and_a_short_one_does_not() -> None:
    backoff = Backoff(lambda: 0.0, base=1, stable=10)
    assert [backoff.delay_after(0), backoff.delay_after(9), backoff.delay_after(10), backoff.delay_after(0)] == [
        1,
        2,
        1,
        2,
    ]


def test_a_thousand_failures_do_not_overflow() -> None:
    backoff = Backoff(lambda: 0.0, cap=60)
    assert [backoff.delay_after(0) for _ in range(1000)][-1] == 60
