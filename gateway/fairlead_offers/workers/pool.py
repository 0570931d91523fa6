"""Processes for heavy work: started when first needed, bounded in number, time and age, and never left behind.

The standard library's pool can neither end one piece of work that takes too long nor
promise that its processes die with a parent that was killed; these (`process`) hang on a pipe, and see its end.
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
"""Most seconds for one piece of work, with the start of a process."""
MAX_WAITING: Final = 64
"""Pieces of work in the queue; beyond it the last one of the agent that has most is refused."""
MAX_PIECES: Final = 500
"""Done by one process before another takes its place."""
IDLE_SECONDS: Final = 120.0
"""A process with nothing to do ends then: one that counts tokens takes 80 MB."""


class ProcessPool:
    """Pool of worker processes. `bulk` work gives way to everything else. Belongs to the loop of its first use."""

    def __init__(
        self,
        size: int,
        *,
        bulk: bool = False,
        seconds: float = SECONDS,
        idle: float = IDLE_SECONDS,
        pieces: int = MAX_PIECES,
        counts: ShareCounts | None = None,
    ) -> None:
        self.size = size
        self._bulk = bulk
        self._pieces = pieces
        self._seconds = seconds
        self._idle_seconds = idle
        self._turns = FairTurns(size, MAX_WAITING, counts)
        self._idle: list[WorkerProcess] = []
        self._ending = TaskSet()
        self._closed = False
        self._busy: set[asyncio.Task[Any]] = set()

    @property
    def pids(self) -> list[int]:
        """Process ids of idle workers."""
        return [child.pid for child in self._idle]

    async def do(self, job: Job[Answer], work: bytes | Sequence[bytes]) -> Answer:
        """The answer to a job, decoded, but a `ConvertedBody` as it came. `work` may be in pieces.

        Raises NotDone.
        """
        if self._closed:
            raise Overloaded(TOO_MUCH)
        task = asyncio.current_task()
        assert task is not None
        self._busy.add(task)
        try:
            async with asyncio.timeout(self._seconds), self._turns.turn():
                mark, answer = await self._done(job.name, [work] if isinstance(work, bytes) else work)
        except ShareTaken as reached:
            raise Overloaded(TOO_MUCH) from reached
        except TimeoutError as error:
            raise Overloaded(f"it takes longer than {self._seconds:g} s: try less at once, or later") from error
        except OSError as error:
            raise NotDone(f"no worker process: {error}") from error
        finally:
            self._busy.discard(task)
        if mark == b"=":  # looking through a large one would hold calls up
            return cast("Answer", ConvertedBody(answer))
        try:
            return cast("Answer", msgspec.json.decode(b"".join(answer), type=job.answers))
        except msgspec.DecodeError as error:
            raise NotDone(f"no answer to {job.name}: {error}") from error

    async def _done(self, job: str, work: Sequence[bytes]) -> tuple[bytes, list[Part]]:
        while self._idle:
            with contextlib.suppress(Ended):  # it died while it had nothing to do
                return await self._by(self._idle.pop(), job, work)
        return await self._by(await WorkerProcess.start(bulk=self._bulk), job, work)

    async def _by(self, child: WorkerProcess, job: str, work: Sequence[bytes]) -> tuple[bytes, list[Part]]:
        if child.timer is not None:
            child.timer.cancel()
        again = False
        try:
            answer = await child.do(job, work)
            again = child.pieces < self._pieces and not self._closed
        finally:
            if again:
                child.timer = asyncio.get_running_loop().call_later(self._idle_seconds, self._tire, child)
                self._idle.append(child)
            else:
                self._end(child)
        return answer

    def _tire(self, child: WorkerProcess) -> None:
        if child in self._idle:
            self._idle.remove(child)
            self._end(child)

    def _end(self, child: WorkerProcess) -> None:
        if child.timer is not None:
            child.timer.cancel()
        self._ending.start(child.end(), "ending a worker process")

    async def aclose(self) -> None:
        """Cancel what is done, kill every process, and see them dead."""
        self._closed = True
        busy = [task for task in self._busy if task is not asyncio.current_task()]
        for task in busy:
            task.cancel()
        if busy:
            await asyncio.wait(busy, timeout=5)
        while self._idle:
            self._end(self._idle.pop())
        if self._ending:
            await asyncio.wait(self._ending, timeout=5)
