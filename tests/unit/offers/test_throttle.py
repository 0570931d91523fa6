"""Start times of conversions, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from fairlead_offers.workers.process import Overloaded
from fairlead_offers.workers.throttle import CHECK_INTERVAL, HOLD_SECONDS, MAX_WAIT, Throttle
from virtualtime import in_virtual_time

pytestmark = in_virtual_time
COST = 0.001
SHARE = 0.01
APART = COST / SHARE


class Calls:
    """Number of calls, which the test sets."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


async def start_times(throttle: Throttle, count: int) -> list[float]:
    """Start times of `count` conversions that are requested at the same time."""
    loop = asyncio.get_running_loop()
    moments = []

    async def task() -> None:
        await throttle.turn(COST)
        moments.append(round(loop.time(), 6))

    await asyncio.gather(*(task() for _ in range(count)))
    return moments


async def test_conversions_begin_at_once_while_no_tools_are_called() -> None:
    assert await start_times(Throttle(Calls(0), SHARE), 5) == [0] * 5


async def test_while_tools_are_called_they_take_their_share_of_the_time_and_no_more() -> None:
    assert await start_times(Throttle(Calls(1), SHARE), 4) == pytest.approx([0, APART, 2 * APART, 3 * APART], abs=0.01)


async def test_a_conversion_that_costs_more_keeps_the_next_waiting_for_longer() -> None:
    throttle = Throttle(Calls(1), SHARE)
    loop = asyncio.get_running_loop()
    await throttle.turn(5 * COST)
    await throttle.turn(COST)
    assert loop.time() == pytest.approx(5 * APART, abs=0.01)
    await throttle.turn(COST)
    assert loop.time() == pytest.approx(6 * APART, abs=0.01)


async def test_conversions_made_while_nobody_called_delay_no_later_one() -> None:
    calls = Calls(0)
    throttle = Throttle(calls, SHARE)
    loop = asyncio.get_running_loop()
    await start_times(throttle, 50)
    calls.now = 1
    await throttle.turn(COST)
    assert loop.time() <= APART + CHECK_INTERVAL


async def test_between_two_calls_the_pace_is_kept_and_given_up_a_while_after_the_last() -> None:
    calls = Calls(1)
    throttle = Throttle(calls, SHARE)
    loop = asyncio.get_running_loop()
    await throttle.turn(100 * COST)
    waiting = asyncio.create_task(throttle.turn(COST))
    await asyncio.sleep(1)
    calls.now = 0
    await asyncio.sleep(HOLD_SECONDS - 2 * CHECK_INTERVAL)
    assert not waiting.done()
    await waiting
    assert 1 + HOLD_SECONDS - CHECK_INTERVAL <= loop.time() <= 1 + HOLD_SECONDS + CHECK_INTERVAL


async def test_a_conversion_that_would_wait_too_long_is_refused_and_room_comes_back() -> None:
    throttle = Throttle(Calls(1), SHARE)
    loop = asyncio.get_running_loop()
    long = MAX_WAIT * 0.6 * SHARE
    await throttle.turn(long)
    waiting = asyncio.create_task(throttle.turn(long))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await throttle.turn(COST)
    assert loop.time() == 0
    assert throttle.waiting == 1
    await waiting
    assert throttle.waiting == 0
    await throttle.turn(COST)


async def test_a_cancelled_conversion_takes_no_turn() -> None:
    throttle = Throttle(Calls(1), SHARE)
    loop = asyncio.get_running_loop()
    await throttle.turn(COST)
    away = asyncio.create_task(throttle.turn(10 * COST))
    after = asyncio.create_task(throttle.turn(COST))
    await asyncio.sleep(0)
    away.cancel()
    await after
    assert loop.time() == pytest.approx(APART, abs=0.01)
    assert throttle.waiting == 0
