"""Work on bytes from outside, in child processes that are few, small and ended after a deadline.

A thread cannot be stopped, so that bytes which are made to be slow would hold it, and with it a processor, for as long
as they like. A process can: it is killed with the call that waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Final
from weakref import WeakValueDictionary

from fairlead_servers.limited_work import OUT_OF_MEMORY

MAX_PROCESSES: Final = 3
MAX_MEMORY: Final = 512 * 2**20
"""Bytes of address space of each process."""
MAX_ANSWER: Final = 32 * 2**20
"""Bytes that a process may answer; a picture of 2048 by 2048 pixels has 12 MiB at most."""
MAX_WAITING: Final = 64
"""Calls that wait for a slot."""
_CHILD: Final = "fairlead_servers.limited_work"
_LOG: Final = logging.getLogger(__name__)


class SlotsTaken(Exception):
    """All processes are busy; the message is a sentence without its full stop."""


class WorkFailed(Exception):
    """A process ended without an answer; the message says what "it" did: "takes longer than 15 s"."""


class ProcessSlot:
    """Permission to have one process at a time."""

    async def run(self, module: str, given: Sequence[bytes], seconds: float) -> bytes:
        """Answer of `work` in a module to the joined bytes, by a process of its own. Raises WorkFailed.

        The process has `MAX_MEMORY`, where the system limits it, and `seconds`; it is killed when this is cancelled.
        """
        # -P: modules come from where the server has them, and not from the folder that it was started in
        words = [sys.executable, "-P", "-m", _CHILD, module, str(MAX_MEMORY), str(math.ceil(seconds) + 1)]
        process = await asyncio.create_subprocess_exec(*words, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
        try:
            async with asyncio.timeout(seconds):
                answer = await _exchange(process, given)
                await process.wait()
        except TimeoutError as error:
            raise WorkFailed(f"takes longer than {seconds:g} s") from error
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.communicate()  # closes its pipes, which may be full
        if process.returncode == OUT_OF_MEMORY:
            raise WorkFailed(f"needs more than {MAX_MEMORY >> 20} MiB of memory")
        if process.returncode != 0:
            raise WorkFailed(f"ended its process with exit code {process.returncode}")
        return answer


class ProcessSlots:
    """At most `MAX_PROCESSES` at once of the work that is done, all of it within the slot: fetching what is worked on,
    too, so that calls which wait hold no bytes. Belongs to the loop of its first use.
    """

    def __init__(self, wait_s: float) -> None:
        """`wait_s`: seconds that a call waits for a slot."""
        self._wait_s = wait_s
        self._slots = asyncio.Semaphore(MAX_PROCESSES)
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._waiting = 0
        if not sys.platform.startswith("linux"):
            _LOG.warning("The memory of child processes is not limited: %s does not enforce RLIMIT_AS.", sys.platform)

    @asynccontextmanager
    async def slot(self, owner: str | None = None) -> AsyncIterator[ProcessSlot]:
        """Wait for a slot, and keep it for the block. One owner never has the last slot. Raises SlotsTaken."""
        if self._waiting >= MAX_WAITING:
            raise SlotsTaken(f"{MAX_WAITING} calls are waiting already; try again later")
        async with AsyncExitStack() as held:
            self._waiting += 1
            try:
                async with asyncio.timeout(self._wait_s):
                    if owner is not None:
                        share = self._shares.setdefault(owner, asyncio.Semaphore(MAX_PROCESSES - 1))
                        await held.enter_async_context(share)
                    await held.enter_async_context(self._slots)
            except TimeoutError as error:
                raise SlotsTaken(f"no process was free for it within {self._wait_s:g} s; try again later") from error
            finally:
                self._waiting -= 1
            yield ProcessSlot()


async def _exchange(process: Process, given: Sequence[bytes]) -> bytes:
    """Standard output of a process that gets the bytes. Raises WorkFailed."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError, ConnectionResetError):  # it ended before: its exit code says why
        for part in given:
            process.stdin.write(part)
            await process.stdin.drain()
    process.stdin.close()
    answer = bytearray()
    while part := await process.stdout.read(2**20):
        answer += part
        if len(answer) > MAX_ANSWER:
            raise WorkFailed(f"answers more than {MAX_ANSWER >> 20} MiB")
    return bytes(answer)
