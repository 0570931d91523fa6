"""The REST API's worker thread refuses work when too much is waiting, except work of a request that is in progress."""

from __future__ import annotations

import asyncio
import threading

import pytest

from fairlead_offers.problems import Problem
from fairlead_offers.workers.heavy_work import MAX_WAITING, THREAD_SLOTS, WorkerThread, never_refuse

PATIENT = 64


async def _in_turn(worker: WorkerThread, number: int) -> int:
    with never_refuse():
        return await asyncio.create_task(worker.do(lambda: number))  # also applies to tasks that are started here


async def test_work_in_the_middle_of_a_request_waits_where_other_work_is_refused() -> None:
    worker = WorkerThread()
    held = threading.Event()
    begun = threading.Event()

    def hold() -> None:
        begun.set()
        held.wait()

    try:
        waiting = [asyncio.create_task(worker.do(hold)) for _ in range(THREAD_SLOTS + MAX_WAITING)]
        await asyncio.to_thread(begun.wait)
        with pytest.raises(Problem, match="too many"):
            await worker.do(int)
        patient = [asyncio.create_task(_in_turn(worker, number)) for number in range(PATIENT)]
        await asyncio.sleep(0)
        with pytest.raises(Problem, match="too many"):
            await worker.do(int)
        patient[-1].cancel()
        held.set()
        done = await asyncio.gather(*patient[:-1])
        await asyncio.gather(*waiting)
        assert done == [*range(PATIENT - 1)]
        assert patient[-1].cancelled()
        assert await worker.do(lambda: 7) == 7
    finally:
        held.set()
        worker.close()
