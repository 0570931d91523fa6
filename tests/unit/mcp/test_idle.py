"""Objects that are idle for a while end, and using one costs no timer."""

from __future__ import annotations

import asyncio

import pytest

from fairlead_mcp.idle import IdleTimes

pytestmark = pytest.mark.looptime


async def test_an_object_ends_when_nobody_has_used_it_for_so_long() -> None:
    ended: list[tuple[str, float]] = []
    loop = asyncio.get_running_loop()
    begun = loop.time()
    times: IdleTimes[str] = IdleTimes(60.0, lambda name: ended.append((name, round(loop.time() - begun))))
    times.mark_idle("first")
    await asyncio.sleep(20)
    times.mark_idle("second")
    await asyncio.sleep(20)
    times.mark_used("first")
    times.mark_idle("first")
    await asyncio.sleep(200)
    assert ended == [("second", 80), ("first", 100)]


async def test_idle_times_do_not_end_objects_in_use() -> None:
    ended: list[str] = []
    times: IdleTimes[str] = IdleTimes(60.0, ended.append)
    times.mark_idle("busy")
    times.mark_used("busy")
    await asyncio.sleep(200)
    assert ended == []
    times.mark_idle("busy")
    await asyncio.sleep(61)
    assert ended == ["busy"]


async def test_the_object_that_was_used_longest_ago_is_known() -> None:
    times: IdleTimes[str] = IdleTimes(60.0, lambda _: None)
    assert times.longest_idle() is None
    for name in ("first", "second", "first"):
        times.mark_idle(name)
    assert times.longest_idle() == "second"
    times.mark_used("second")
    assert times.longest_idle() == "first"
    times.close()


async def test_an_object_that_ends_may_mark_others_idle() -> None:
    ended: list[str] = []

    def note(name: str) -> None:
        ended.append(name)
        if name == "first":
            times.mark_idle("second")

    times: IdleTimes[str] = IdleTimes(60.0, note)
    times.mark_idle("first")
    await asyncio.sleep(90)
    assert ended == ["first"]
    await asyncio.sleep(40)
    assert ended == ["first", "second"]


async def test_uses_share_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    made = 0
    schedule = loop.call_later

    def count_and_schedule(*words: object, **named: object) -> asyncio.TimerHandle:
        nonlocal made
        made += 1
        return schedule(*words, **named)  # type: ignore[arg-type]  # handed on as they came

    monkeypatch.setattr(loop, "call_later", count_and_schedule)
    times: IdleTimes[int] = IdleTimes(60.0, lambda _: None)
    for number in range(1000):
        times.mark_idle(number % 7)
        times.mark_used(number % 7)
    assert made == 1
    times.close()


async def test_closed_idle_times_may_be_used_in_another_loop() -> None:
    times: IdleTimes[str] = IdleTimes(60.0, lambda _: None)

    async def use() -> None:
        times.mark_idle("thing")
        times.close()

    await use()
    await asyncio.to_thread(asyncio.run, use())
