"""Work in the thread that waits for processes in between: a coroutine, whose steps the thread runs.

What it awaits is `InProcesses`. It goes on where it stopped, so that nothing is done twice; where nothing is awaited
it takes one turn of the thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Generator, Sequence
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from fairlead_offers.job import Answer, Job
from fairlead_offers.problems import RATE_LIMITED, Problem
from fairlead_offers.workers.pool import ProcessPool
from fairlead_offers.workers.process import NotDone, Overloaded
from fairlead_offers.workers.worker import WorkerThread

Result = TypeVar("Result")
Steps: TypeAlias = Coroutine["InProcesses[Any]", "list[Any] | None", Result]
log = logging.getLogger(__name__)


class InProcesses(Generic[Answer]):
    """Pieces of work for a pool. Awaited, it gives their answers in order, or None where the processes failed: the
    thread does them then.
    """

    def __init__(self, pool: ProcessPool, job: Job[Answer], pieces: Sequence[bytes]) -> None:
        self._pool = pool
        self._job = job
        self._pieces = pieces

    def __await__(self) -> Generator[InProcesses[Answer], list[Answer] | None, list[Answer] | None]:
        return (yield self)

    async def answers(self) -> list[Answer] | None:
        """Do them, in the loop. Raises Problem where too much is waiting."""
        try:
            return [await self._pool.do(self._job, piece) for piece in self._pieces]
        except NotDone as error:
            refuse_or_log(error)
            return None


async def stepwise(worker: WorkerThread, work: Callable[[], Steps[Result]]) -> Result:
    """Run the coroutine that `work` makes, its steps in the thread. Raises what it raises, and Problem."""
    run = _Run(work)
    answers: list[Any] | None = None
    while True:
        awaited = await worker.do(partial(run.step, answers))
        if awaited is None:
            return run.result
        answers = await awaited.answers()


class _Run(Generic[Result]):
    """One coroutine. It is made in the thread, so that work which is refused a turn leaves none behind."""

    result: Result

    def __init__(self, work: Callable[[], Steps[Result]]) -> None:
        self._work = work
        self._steps: Steps[Result] | None = None

    def step(self, answers: list[Any] | None) -> InProcesses[Any] | None:
        """The next thing that the coroutine awaits; None at its end."""
        if self._steps is None:
            self._steps = self._work()
        try:
            return self._steps.send(answers)
        except StopIteration as end:
            self.result = end.value
            return None


def refuse_or_log(error: NotDone) -> None:
    """Raise Problem where too much is waiting; any other failure of a process is logged."""
    if isinstance(error, Overloaded):
        raise Problem(RATE_LIMITED, str(error), retry_after_ms=1000) from error
    log.warning("A worker process failed, and the work is done in the gateway itself: %s", error)
