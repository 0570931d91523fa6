"""The work queue, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from fairlead_operator.outcome import Done, Outcome, Stalled, Waiting
from fairlead_operator.workqueue import ItemBackoff, WorkQueue
from virtualtime import in_virtual_time

pytestmark = in_virtual_time

Work = Callable[[str], Awaitable[Outcome]]


async def run_for(seconds: float, queue: WorkQueue[str], work: Work) -> None:
    """Run the queue for some virtual seconds."""
    task = asyncio.create_task(queue.run(work))
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def recorder(outcomes: dict[str, list[Outcome]]) -> tuple[list[tuple[str, float]], Work]:
    """Work that records (key, time) and returns scripted outcomes. The last outcome is repeated."""
    seen: list[tuple[str, float]] = []

    async def work(key: str) -> Outcome:
        seen.append((key, asyncio.get_running_loop().time()))
        script = outcomes[key]
        return script.pop(0) if len(script) > 1 else script[0]

    return seen, work


async def test_a_key_that_is_added_often_is_looked_at_once() -> None:
    seen, work = recorder({"a": [Done()]})
    queue: WorkQueue[str] = WorkQueue()
    for _ in range(100):
        queue.add("a")
    await run_for(1, queue, work)
    assert seen == [("a", 0)]


async def test_a_key_that_is_added_while_it_is_worked_on_is_looked_at_once_more_and_not_beside() -> None:
    running = most = looks = 0

    async def work(key: str) -> Outcome:
        nonlocal running, most, looks
        running += 1
        looks += 1
        most = max(most, running)
        if looks == 1:
            for _ in range(5):
                queue.add(key)
        await asyncio.sleep(1)
        running -= 1
        return Done()

    queue: WorkQueue[str] = WorkQueue(workers=4)
    queue.add("a")
    await run_for(10, queue, work)
    assert (looks, most) == (2, 1)


async def test_keys_are_worked_on_side_by_side_up_to_the_number_of_workers() -> None:
    running = most = 0

    async def work(key: str) -> Outcome:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(1)
        running -= 1
        return Done()

    queue: WorkQueue[str] = WorkQueue(workers=3)
    for key in "abcdefg":
        queue.add(key)
    await run_for(10, queue, work)
    assert most == 3


async def test_a_key_comes_back_to_the_work_queue_after_its_time_and_without_one_never() -> None:
    seen, work = recorder({"periodic": [Done(10)], "once": [Done()]})
    queue: WorkQueue[str] = WorkQueue()
    queue.add("periodic")
    queue.add("once")
    await run_for(25, queue, work)
    assert seen == [("periodic", 0), ("once", 0), ("periodic", 10), ("periodic", 20)]


async def test_stalled_is_left_alone_unless_it_names_a_time() -> None:
    seen, work = recorder({"for good": [Stalled("Invalid")], "a while": [Stalled("Refused", 60), Done()]})
    queue: WorkQueue[str] = WorkQueue()
    queue.add("for good")
    queue.add("a while")
    await run_for(1000, queue, work)
    assert seen == [("for good", 0), ("a while", 0), ("a while", 60)]


async def test_retries_of_a_work_queue_back_off_and_are_reset_by_success() -> None:
    seen, work = recorder({"a": [Waiting("x"), Waiting("x"), Waiting("x"), Done(0.5), Waiting("x"), Done()]})
    queue: WorkQueue[str] = WorkQueue(backoff=ItemBackoff(first=1, limit=60, jitter=0))
    queue.add("a")
    await run_for(100, queue, work)
    assert [time for _, time in seen] == [0, 1, 3, 7, 7.5, 8.5]


async def test_the_back_off_has_a_limit_and_jitter_within_its_bounds() -> None:
    backoff = ItemBackoff(first=1, limit=8, jitter=0.25)
    delays = [backoff.delay(failures, random.Random(1)) for failures in (1, 2, 3, 4, 50, 5000)]
    for delay, plain in zip(delays, (1, 2, 4, 8, 8, 8), strict=True):
        assert 0.75 * plain <= delay <= 1.25 * plain


async def test_an_event_cuts_a_delay_short_and_a_later_delay_does_not_put_it_off() -> None:
    seen, work = recorder({"a": [Done()]})
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 100)
    queue.add_after("a", 5)
    queue.add_after("a", 50)
    task = asyncio.create_task(queue.run(work))
    await asyncio.sleep(2)
    assert seen == []
    await asyncio.sleep(4)
    assert seen == [("a", 5)]
    queue.add_after("a", 100)
    queue.add("a")
    await asyncio.sleep(200)
    assert seen == [("a", 5), ("a", 6)]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_work_that_raises_is_logged_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    looks = 0

    async def work(key: str) -> Outcome:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise RuntimeError("boom")
        return Done()

    queue: WorkQueue[str] = WorkQueue(backoff=ItemBackoff(first=1, jitter=0))
    queue.add("a")
    await run_for(5, queue, work)
    assert looks == 2
    assert "the reconcile of a failed" in caplog.text


async def test_a_forgotten_key_does_not_come_back() -> None:
    seen, work = recorder({"a": [Done()]})
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 5)
    queue.forget("a")
    await run_for(10, queue, work)
    assert seen == []


async def test_idle_returns_when_nothing_is_due_or_worked_on() -> None:
    async def work(key: str) -> Outcome:
        await asyncio.sleep(3)
        return Done(1000)

    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    task = asyncio.create_task(queue.run(work))
    await queue.wait_until_idle()
    assert asyncio.get_running_loop().time() == 3
    assert (queue.depth, queue.active_count) == (0, 0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_moment_that_is_a_hair_away_is_waited_for_without_looking_again_and_again() -> None:
    seen, work = recorder({"a": [Done(1e-9)]})
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await run_for(0.01, queue, work)
    assert 2 <= len(seen) <= 11
