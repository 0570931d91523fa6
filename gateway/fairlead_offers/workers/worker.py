"""Work of the REST API off the loop: one thread, a bounded queue, and breath for the loop in between.

What is heavy goes to `pool`; here is what needs the gateway's own state. A thread shares the
interpreter with the loop: work of more than half a millisecond uses `breathing`, or calls in flight
would wait for the interpreter's switch interval.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.limits.shares import ShareTaken
from fairlead_gateway.limits.turns import FairTurns
from fairlead_offers.problems import RATE_LIMITED, Problem

Result = TypeVar("Result")
Item = TypeVar("Item")

MAX_WAITING: Final = 64
"""Pieces of work in the queue; beyond it the last one of the agent that has most is refused."""
PLACES: Final = 2
"""Pieces of work that the thread has: the next one is there when it is done with the first."""
TOO_MUCH: Final = "too many conversions and searches at once"
BREATH: Final = 5e-5
"""Seconds: long enough for the kernel to hand the interpreter over."""
STRIDE: Final = 8
"""Tools between two breaths; one takes about 50 µs."""


class MissingInput(Exception):
    """The work needs what is not there yet and is better made in a process: `context` has it made and begins again."""

    def __init__(self, job: str, pieces: list[bytes], take: Callable[[list[Any]], None]) -> None:
        super().__init__(job)
        self.job = job
        self.pieces = pieces
        self.take = take
        """Puts the answers to the pieces where the work looks for them. In the thread."""


_PATIENT: Final[ContextVar[bool]] = ContextVar("patient", default=False)


@contextlib.contextmanager
def in_turn() -> Iterator[None]:
    """Have work of this task, and of tasks that it begins, wait for its turn where it would be refused: in the middle
    of a request with a time limit of its own, which has run tools that a client would run again.
    """
    token = _PATIENT.set(True)
    try:
        yield
    finally:
        _PATIENT.reset(token)


class WorkerThread:
    """Does one piece of work at a time."""

    def __init__(self, counts: ShareCounts | None = None) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rest")
        self._turns = FairTurns(PLACES, MAX_WAITING, counts)

    async def do(self, work: Callable[[], Result]) -> Result:
        """Run `work` in the thread, in a turn of the agent that it is for. Raises what it raises, and Problem where too
        much of that agent's is waiting, but for work that waits for its turn.
        """
        try:
            async with self._turns.turn(patient=_PATIENT.get()):
                return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except ShareTaken as reached:
            raise Problem(RATE_LIMITED, TOO_MUCH, retry_after_ms=1000) from reached

    def close(self) -> None:
        """Drop waiting work; running work ends by itself."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def breathing(items: Iterable[Item], stride: int = STRIDE) -> Iterator[Item]:
    """The items, with a breath after every `stride` of them."""
    for number, item in enumerate(items, 1):
        yield item
        if number % stride == 0:
            time.sleep(BREATH)
