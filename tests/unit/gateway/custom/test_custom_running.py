"""Running of handlers: each step is timed, and values, exceptions and cancellation still pass between task and
handler."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairlead_tools.handlers.problems import HandlerFailed
from fairlead_tools.handlers.running import Stepped, await_handler


class Ready:
    """Awaitable that is not a coroutine, and whose iterator has neither `send` nor `throw`."""

    def __await__(self) -> Any:
        return iter(())


async def three_steps() -> str:
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return "done"


async def test_each_step_is_told_and_the_result_is_passed_on() -> None:
    steps: list[float] = []
    assert await Stepped(three_steps(), steps.append) == "done"
    assert len(steps) == 3
    assert min(steps) >= 0


async def test_futures_and_plain_awaitables_are_awaited_too() -> None:
    future = asyncio.get_running_loop().create_future()
    future.set_result(4)
    assert await Stepped(future, lambda seconds: None) == 4
    assert await Stepped(Ready(), lambda seconds: None) is None


async def test_time_limits_and_tasks_within_a_handler_work_as_ever() -> None:
    async def handler() -> str:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        async with asyncio.TaskGroup() as group:
            inner = group.create_task(three_steps())
        return inner.result()

    assert await await_handler(handler, lambda seconds: None) == "done"


async def test_a_cancellation_reaches_the_handler_and_its_task() -> None:
    seen = asyncio.Event()

    async def handler() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.set()
            raise

    task = asyncio.create_task(await_handler(handler, lambda seconds: None))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen.is_set()


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), asyncio.CancelledError()])
async def test_exceptions_of_a_handler_become_handler_failed(error: BaseException) -> None:
    async def handler() -> None:
        await asyncio.sleep(0)
        raise error

    with pytest.raises(HandlerFailed):
        await await_handler(handler, lambda seconds: None)
