"""Limits the number of child processes that process untrusted bytes, such as pages of the web.

`fairlead_mcp.limited_process` limits each of them.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

from fairlead_mcp.limited_process import ProcessLimits, run_limited

MAX_PROCESSES: Final = 3
MAX_MEMORY: Final = 512 * 2**20
"""Limit on the address space of each process, in bytes."""
MAX_ANSWER: Final = 32 * 2**20
"""Limit on the output of a process, in bytes; a picture of 2048 by 2048 pixels has at most 12 MiB."""
MAX_WAITING: Final = 64
"""Limit on the calls that wait for a slot."""
_LOG: Final = logging.getLogger(__name__)


class SlotsTaken(Exception):
    """Failure to get a slot, because all are in use. The message is a sentence without its full stop."""


class ProcessSlot:
    """Permission to run one child process at a time. A call holds it while it processes its input."""

    async def run(self, module: str, parts: Sequence[bytes], seconds: float) -> bytes:
        """Run `work` of a module in a new process on the joined bytes, and return its output. Raises WorkFailed.

        The process is limited to `MAX_MEMORY`, where the system supports that, and to `seconds`. It is killed on
        cancellation.
        """
        return await run_limited(module, parts, ProcessLimits(MAX_MEMORY, seconds, MAX_ANSWER))


class ProcessSlots:
    """Limits concurrent work to `MAX_PROCESSES` slots. A call should fetch its input only when it has a slot, so that
    waiting calls hold no data. An instance belongs to the event loop in which it is used first.
    """

    def __init__(self, wait_s: float) -> None:
        """`wait_s`: maximum seconds that a call waits for a slot."""
        self._wait_s = wait_s
        self._slots = asyncio.Semaphore(MAX_PROCESSES)
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        """Semaphores by owner. Each has one slot less than there are in total."""
        self._waiting_count = 0
        if not sys.platform.startswith("linux"):
            _LOG.warning("The memory of child processes is not limited: %s does not enforce RLIMIT_AS.", sys.platform)

    @asynccontextmanager
    async def slot(self, owner: str | None = None) -> AsyncIterator[ProcessSlot]:
        """Wait for a slot, and hold it within the context. One owner cannot occupy all slots. Raises SlotsTaken."""
        if self._waiting_count >= MAX_WAITING:
            raise SlotsTaken(f"{MAX_WAITING} other calls are waiting; try again later")
        async with AsyncExitStack() as stack:
            self._waiting_count += 1
            try:
                async with asyncio.timeout(self._wait_s):
                    if owner is not None:
                        owner_slots = self._shares.setdefault(owner, asyncio.Semaphore(MAX_PROCESSES - 1))
                        await stack.enter_async_context(owner_slots)
                    await stack.enter_async_context(self._slots)
            except TimeoutError as error:
                raise SlotsTaken(f"no process became free within {self._wait_s:g} s; try again later") from error
            finally:
                self._waiting_count -= 1
            yield ProcessSlot()
