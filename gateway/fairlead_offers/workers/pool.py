"""Pool of worker processes for heavy work: started on demand, and limited in number, time per job, and jobs per
process.

The standard library's pool cannot abort a job that takes too long, and its processes may outlive a parent that was
killed. The worker processes here (`process`) can be killed during a job, and exit when their pipe to the gateway is
closed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Final, cast

import msgspec

from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.limits.fair_rotation import FairTurns
from fairlead_gateway.limits.shares import ShareTaken
from fairlead_mcp.asyncio_tasks import TaskSet
from fairlead_offers.job import Answer, ConvertedBody, Job
from fairlead_offers.workers.process import TOO_MUCH, Ended, NotDone, Overloaded, Part, WorkerProcess

SECONDS: Final = 30.0
"""Maximum seconds for one piece of work, including the start of a process."""
MAX_WAITING: Final = 64
"""Maximum number of pieces of work in the queue. If a further piece arrives, the newest piece of the agent with the
most pieces is refused.
"""
MAX_PIECES: Final = 100_000
"""Maximum number of pieces of work of a process. Then the process is replaced, which takes a quarter of a second of a
core."""
MAX_BULK_PIECES: Final = 500
"""Maximum number of pieces of a `bulk` process, each of which takes tens of milliseconds."""
IDLE_SECONDS: Final = 120.0
"""Seconds after which an idle process is ended. A process that counts tokens takes 80 MB."""


class ProcessPool:
    """Pool of worker processes. `bulk` processes have the lowest priority. Must be used in one event loop only."""

    def __init__(
        self,
        size: int,
        *,
        bulk: bool = False,
        seconds: float = SECONDS,
        idle: float = IDLE_SECONDS,
        counts: ShareCounts | None = None,
    ) -> None:
        self.size = size
        self._bulk = bulk
        self._pieces = MAX_BULK_PIECES if bulk else MAX_PIECES
        self._seconds = seconds
        self._idle_seconds = idle
        self._turns = FairTurns(size, MAX_WAITING, counts)
        self._idle: list[WorkerProcess] = []
        self._ending_tasks = TaskSet()
        self._closed = False
        self._busy_tasks: set[asyncio.Task[Any]] = set()

    @property
    def pids(self) -> list[int]:
        """Process ids of idle workers."""
        return [child.pid for child in self._idle]

    async def do(self, job: Job[Answer], work: bytes | Sequence[bytes]) -> Answer:
        """Run a job and decode its answer; a `ConvertedBody` is returned as it was received. `work` may be in pieces.
        Raises NotDone.
        """
        if self._closed:
            raise Overloaded(TOO_MUCH)
        task = asyncio.current_task()
        assert task is not None
        self._busy_tasks.add(task)
        try:
            async with asyncio.timeout(self._seconds), self._turns.turn():
                mark, answer = await self._run(job.name, [work] if isinstance(work, bytes) else work)
        except ShareTaken as reached:
            raise Overloaded(TOO_MUCH) from reached
        except TimeoutError as error:
            raise Overloaded(
                f"the work takes longer than {self._seconds:g} s: send less at once, or retry later"
            ) from error
        except OSError as error:
            raise NotDone(f"a worker process could not be started: {error}") from error
        finally:
            self._busy_tasks.discard(task)
        if mark == b"=":  # not decoded, because a large body would block the event loop
            return cast("Answer", ConvertedBody(answer))
        try:
            return cast("Answer", msgspec.json.decode(b"".join(answer), type=job.answer_type))
        except msgspec.DecodeError as error:
            raise NotDone(f"the answer to the job {job.name} cannot be decoded: {error}") from error

    async def _run(self, job: str, work: Sequence[bytes]) -> tuple[bytes, list[Part]]:
        while self._idle:
            with contextlib.suppress(Ended):  # the process died while it was idle
                return await self._run_in(self._idle.pop(), job, work)
        return await self._run_in(await WorkerProcess.start(bulk=self._bulk), job, work)

    async def _run_in(self, child: WorkerProcess, job: str, work: Sequence[bytes]) -> tuple[bytes, list[Part]]:
        if child.timer is not None:
            child.timer.cancel()
        is_reusable = False
        try:
            answer = await child.do(job, work)
            is_reusable = child.pieces < self._pieces and not self._closed
        finally:
            if is_reusable:
                child.timer = asyncio.get_running_loop().call_later(self._idle_seconds, self._end_idle, child)
                self._idle.append(child)
            else:
                self._end(child)
        return answer

    def _end_idle(self, child: WorkerProcess) -> None:
        if child in self._idle:
            self._idle.remove(child)
            self._end(child)

    def _end(self, child: WorkerProcess) -> None:
        if child.timer is not None:
            child.timer.cancel()
        self._ending_tasks.start(child.end(), "ending a worker process")

    async def aclose(self) -> None:
        """Cancel running jobs, kill all processes, and wait for their end."""
        self._closed = True
        busy = [task for task in self._busy_tasks if task is not asyncio.current_task()]
        for task in busy:
            task.cancel()
        if busy:
            await asyncio.wait(busy, timeout=5)
        while self._idle:
            self._end(self._idle.pop())
        if self._ending_tasks:
            await asyncio.wait(self._ending_tasks, timeout=5)
