"""Tasks whose result several callers await."""

from __future__ import annotations

import asyncio

import pytest

from fairlead_mcp.oauth.shared_task import SharedTask, TaskStopped
from virtualtime import in_virtual_time
from waiting import eventually

pytestmark = in_virtual_time


class Work:
    """Work that returns 7 or raises an error when the test lets it end."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.error: Exception | None = None
        self.cancelled = False

    async def run(self) -> int:
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if self.error is not None:
            raise self.error
        return 7


async def waiters(task: SharedTask[int], count: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.ensure_future(task.result()) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def test_all_waiters_get_the_result_of_one_run() -> None:
    work = Work()
    shared = SharedTask(work.run(), "work")
    waiting = await waiters(shared, 200)
    work.may_end.set()
    assert await asyncio.gather(*waiting) == [7] * 200
    assert not shared.running


async def test_cancelled_waiter_leaves_the_work_to_the_others_and_the_last_one_ends_it() -> None:
    work = Work()
    shared = SharedTask(work.run(), "work")
    first, second, third = await waiters(shared, 3)
    first.cancel()
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert not work.cancelled
    assert shared.running
    third.cancel()
    await asyncio.gather(third, return_exceptions=True)
    await eventually(lambda: work.cancelled)


async def test_failure_reaches_all_waiters() -> None:
    work = Work()
    work.error = ValueError("odd")
    shared = SharedTask(work.run(), "work")
    waiting = await waiters(shared, 3)
    work.may_end.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [str(result) for result in results] == ["odd"] * 3


async def test_closed_work_tells_its_waiters() -> None:
    work = Work()
    shared = SharedTask(work.run(), "work")
    (waiting,) = await waiters(shared, 1)
    await shared.aclose()
    with pytest.raises(TaskStopped):
        await waiting
    assert work.cancelled


async def test_work_that_completes_is_not_ended_with_its_last_waiter() -> None:
    work = Work()
    shared = SharedTask(work.run(), "work", completes=True)
    (waiting,) = await waiters(shared, 1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert shared.running
    work.may_end.set()
    assert await shared.result() == 7
    assert not work.cancelled


async def test_close_waits_for_work_that_ends_in_time() -> None:
    work = Work()
    shared = SharedTask(work.run(), "work", completes=True)
    closing = asyncio.ensure_future(shared.aclose(20))
    asyncio.get_running_loop().call_later(10, work.may_end.set)
    await closing
    assert await shared.result() == 7


async def test_close_cancels_work_that_takes_longer() -> None:
    work = Work()
    shared = SharedTask(work.run(), "work", completes=True)
    (waiting,) = await waiters(shared, 1)
    await shared.aclose(20)
    assert work.cancelled
    with pytest.raises(TaskStopped):
        await waiting
