"""Work in the worker thread that waits for processes continues where it stopped, and itself does what they cannot."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator

import pytest

from fairlead_formats.tokens.sizes import Size
from fairlead_offers.conversion.jobs import COUNT
from fairlead_offers.job import Job
from fairlead_offers.problems import RATE_LIMITED, Problem
from fairlead_offers.workers.heavy_work import InProcesses, WorkerThread, run_in_steps
from fairlead_offers.workers.pool import ProcessPool

DEFINITIONS = b'[{"name": "add", "inputSchema": {"type": "object"}}]'


@pytest.fixture
async def pool() -> AsyncIterator[ProcessPool]:
    made = ProcessPool(1, seconds=200)
    yield made
    await made.aclose()


async def test_work_goes_on_where_it_awaited_a_process_and_does_nothing_twice(pool: ProcessPool) -> None:
    worker, steps, threads = WorkerThread(), [], []

    async def step(name: str) -> list[list[Size]] | None:
        steps.append(name)
        threads.append(threading.current_thread())
        return await InProcesses(pool, COUNT, [DEFINITIONS, b"[]"])

    async def work() -> list[list[Size]] | None:
        await step("first")
        return await step("second")

    counts = await run_in_steps(worker, work)
    worker.close()
    assert steps == ["first", "second"]
    assert len({*threads}) == 1
    assert threads[0] is not threading.current_thread()
    assert counts is not None
    assert [len(sizes) for sizes in counts] == [1, 0]


async def test_work_that_awaits_nothing_takes_one_turn_of_the_thread() -> None:
    class Counting(WorkerThread):
        turns = 0

        async def do(self, work):  # type: ignore[no-untyped-def]  # counts, and does the same
            self.turns += 1
            return await super().do(work)

    async def work() -> str:
        return "done"

    worker = Counting()
    assert await run_in_steps(worker, work) == "done"
    worker.close()
    assert worker.turns == 1


async def test_work_gets_none_where_the_processes_failed(pool: ProcessPool) -> None:
    worker = WorkerThread()

    async def work() -> list[int] | None:
        return await InProcesses(pool, Job[int]("a job that no process has", int), [b""])

    assert await run_in_steps(worker, work) is None
    worker.close()


async def test_work_that_too_many_wait_for_is_refused(pool: ProcessPool) -> None:
    worker = WorkerThread()
    await pool.aclose()

    async def work() -> list[list[Size]] | None:
        return await InProcesses(pool, COUNT, [b"[]"])

    with pytest.raises(Problem) as refused:
        await run_in_steps(worker, work)
    worker.close()
    assert refused.value.document.code == RATE_LIMITED
