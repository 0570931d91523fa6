"""Intervals at which the stream of a server's own messages is opened again."""

from __future__ import annotations

import math

import pytest

from fairlead_gateway.upstream.get_stream import (
    LAST_DELAY,
    MAX_RETRY,
    MIN_RETRY,
    delay_before_reopening,
    is_busy,
)
from fairlead_mcp.backoff import Backoff


def backoff() -> Backoff:
    return Backoff(lambda: 0.0, base=0.1, cap=LAST_DELAY)


def test_a_server_that_ends_streams_on_purpose_is_asked_at_its_own_pace() -> None:
    pauses = backoff()
    assert [delay_before_reopening(pauses, 0.1, 5.0, ended_well=True) for _ in range(20)] == [5.0] * 20


def test_a_server_that_fails_is_asked_less_and_less_and_not_before_its_retry() -> None:
    pauses = backoff()
    delays = [delay_before_reopening(pauses, 0.0, 5.0, ended_well=False) for _ in range(12)]
    assert delays[:6] == [5.0] * 6
    assert delays[-1] == LAST_DELAY
    assert delay_before_reopening(pauses, 0.1, 5.0, ended_well=True) == 5.0, "also after failures"


def test_streams_that_end_early_without_a_retry_are_opened_less_and_less() -> None:
    pauses = backoff()
    assert [delay_before_reopening(pauses, 0.0, None, ended_well=True) for _ in range(3)] == [0.1, 0.2, 0.4]


@pytest.mark.parametrize(("retry", "delay"), [(0.0, MIN_RETRY), (math.inf, MAX_RETRY)])
def test_a_pace_is_bounded(retry: float, delay: float) -> None:
    assert delay_before_reopening(backoff(), 0.1, retry, ended_well=True) == delay


def test_statuses_of_busy_servers_are_told_from_those_that_stay() -> None:
    assert [status for status in (200, 400, 404, 405, 429, 500, 502, 503) if is_busy(status)] == [429, 500, 502, 503]
