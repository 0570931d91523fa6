"""Gateway's side of one worker process: starts it, sends it jobs, receives the answers over pipes, and ends it.

`child` is the program of the process, and `pool` manages the processes. Answers are stored in the parts in which they
were received, because asyncio's streams would copy an answer three times in the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from typing import Final, cast

from fairlead_offers.job import BULK, LENGTH

HEAD: Final = LENGTH.size + 1
"""Bytes before the content of an answer: its length and its mark."""
TOO_MUCH: Final = "too many conversions and searches are waiting: retry later"
Part = bytes | memoryview


class NotDone(Exception):
    """A worker process gave no answer to a job. The message has the reason."""


class Overloaded(NotDone):
    """Too much work is waiting, or the work takes too long."""


class Ended(NotDone):
    """The worker process has ended."""


class WorkerProcess(asyncio.SubprocessProtocol):
    """Worker process, which runs one piece of work at a time."""

    def __init__(self) -> None:
        self.pieces = 0
        """Number of jobs that were sent to the process."""
        self.timer: asyncio.TimerHandle | None = None
        """Timer by which the pool ends the process after a long idle time."""
        self._exit: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._answer: asyncio.Future[None] | None = None
        self._received_pieces: list[bytes] = []
        self._size = 0
        self._length = 0
        """Length in bytes of the answer that is being received; 0: not known yet."""

    @classmethod
    async def start(cls, *, bulk: bool) -> WorkerProcess:
        """Start a process. Raises OSError."""
        command = [sys.executable, "-m", "fairlead_offers.child", *([BULK] if bulk else [])]
        loop = asyncio.get_running_loop()
        return (await loop.subprocess_exec(cls, *command, stdin=PIPE, stdout=PIPE, stderr=None))[1]

    @property
    def pid(self) -> int:
        return self._process.get_pid() or 0

    async def do(self, job: str, work: Sequence[bytes]) -> tuple[bytes, list[Part]]:
        """Run a job. Returns the mark of the answer, and its parts. Raises NotDone, or Ended if the process ended."""
        if self._exit.done():
            raise Ended("the worker process ended")
        self.pieces += 1
        self._received_pieces = []
        self._size = 0
        self._length = 0
        self._answer = asyncio.get_running_loop().create_future()
        self._input.write(LENGTH.pack(len(job) + 1 + sum(map(len, work))) + job.encode() + b"\n")
        self._input.writelines(work)
        await self._answer
        first, *rest = self._received_pieces
        parts: list[Part] = [memoryview(first)[HEAD:], *rest]
        if first[LENGTH.size : HEAD] == b"-":
            raise NotDone(b"".join(parts).decode("utf-8", "replace"))
        return first[LENGTH.size : HEAD], parts

    async def end(self) -> None:
        """Kill the process, and wait for its end."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._exit
        self._process.close()

    # asyncio.SubprocessProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process = cast("asyncio.SubprocessTransport", transport)
        self._input = cast("asyncio.WriteTransport", self._process.get_pipe_transport(0))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        answer = self._answer
        if answer is None or answer.done():  # the task that waited for the answer was cancelled
            return
        self._received_pieces.append(data)
        self._size += len(data)
        if not self._length and self._size >= HEAD:
            if len(self._received_pieces) > 1:
                self._received_pieces = [b"".join(self._received_pieces)]
            self._length = LENGTH.size + LENGTH.unpack_from(self._received_pieces[0])[0]
        if self._length and self._size >= self._length:
            answer.set_result(None)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._fail()

    def process_exited(self) -> None:
        if not self._exit.done():
            self._exit.set_result(None)
        self._fail()

    def _fail(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(Ended("the worker process ended"))
