"""Batches of calls: one call has no task of its own, and otherwise the same outcome as several."""

from __future__ import annotations

import asyncio

import pytest

from fairlead_tools.batch import run_all


async def done() -> str:
    return "done"


async def fail() -> str:
    raise ValueError("no")


@pytest.mark.parametrize("number", [0, 1, 3])
@pytest.mark.parametrize("at_once", [1, 128])
async def test_results_have_the_order_of_the_calls(number: int, at_once: int) -> None:
    async def result(index: int) -> int:
        await asyncio.sleep(0)
        return index

    works = [lambda index=index: result(index) for index in range(number)]
    assert await run_all(works, at_once=at_once) == [*range(number)]


@pytest.mark.parametrize("works", [(fail,), (done, fail)], ids=["one", "two"])
async def test_a_call_that_raises_ends_the_batch_with_a_group(works: tuple[type, ...]) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        await run_all(works, at_once=128)
    assert [str(error) for error in raised.value.exceptions] == ["no"]


@pytest.mark.parametrize("number", [1, 2])
async def test_a_cancelled_batch_cancels_its_calls(number: int) -> None:
    ended = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    batch = asyncio.ensure_future(run_all([wait] * number, at_once=128))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await batch
    assert ended == ["cancelled"] * number
