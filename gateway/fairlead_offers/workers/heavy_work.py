"""Work that would hold up the event loop, done in a thread or by processes: conversions, sizes and long documents.

The thread does what needs the gateway's own state, processes (`pool`) do the rest; without processes, or where they
fail, the thread does everything. It has a bounded queue and shares the interpreter with the loop: work of more than
half a millisecond pauses with `breathing`, or calls in flight would wait for the interpreter's switch interval. Work
that waits for processes in between is a coroutine whose steps run in the thread (`HeavyWork.stepwise`); it awaits
`InProcesses` and continues where it stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Raw

from fairlead_formats.tokens.counting import LazyCounter
from fairlead_formats.tokens.sizes import Sizes
from fairlead_formats.tool_format import Format, Options
from fairlead_formats.tools.cache import Conversions
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.limits.fair_rotation import FairTurns
from fairlead_gateway.limits.shares import ShareTaken
from fairlead_mcp.read_bounds import explain_excess, is_long
from fairlead_offers.conversion.jobs import (
    COUNT,
    MEASURE,
    PREPARE,
    REPEATS,
    Measured,
    Preparation,
    RawTool,
    measure,
    repeats,
)
from fairlead_offers.job import Answer, Job
from fairlead_offers.problems import RATE_LIMITED, Problem
from fairlead_offers.workers.pool import ProcessPool
from fairlead_offers.workers.process import TOO_MUCH, NotDone, Overloaded
from fairlead_offers.workers.throttle import Throttle

Result = TypeVar("Result")
Item = TypeVar("Item")

MAX_WAITING: Final = 64
"""Pieces of work in the queue; beyond it the last one of the agent that has most is refused."""
PLACES: Final = 2
"""Pieces of work that the thread has: the next one is there when it is done with the first."""
BREATH: Final = 5e-5
"""Seconds: long enough for the kernel to hand the interpreter over."""
STRIDE: Final = 8
"""Tools between two breaths; one takes about 50 µs."""


_PATIENT: Final[ContextVar[bool]] = ContextVar("patient", default=False)
Steps: TypeAlias = Coroutine["InProcesses[Any]", "list[Any] | None", Result]
log = logging.getLogger(__name__)
PIECE: Final = 256
"""Definitions that a process gets at once."""
SMALL: Final = 16 << 10
"""Bytes of a body that is looked through in the loop, in less than a millisecond as a rule."""
_encode: Final = msgspec.json.Encoder().encode


@contextlib.contextmanager
def in_turn() -> Iterator[None]:
    """Let work of this task, and of tasks that it begins, wait for its turn where it would be refused. For requests
    that have a time limit of their own and have run tools: a client would repeat them after a refusal.
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
    """One coroutine, created in the thread: work that is refused a turn leaves no coroutine behind."""

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


class HeavyWork:
    """Does heavy work, in turns of the agents that it is for. One per gateway."""

    def __init__(self, throttle: Throttle, shares: ShareCounts, processes: int = 0) -> None:
        """`processes` of each kind at most; 0: the thread does everything."""
        self.worker = WorkerThread(shares)
        self.throttle = throttle
        """Throttle of conversions of callers' definitions; those of served tools are made once, without it."""
        self.converting = ProcessPool(processes, bulk=True, counts=shares) if processes else None
        self.counting = ProcessPool(processes, counts=shares) if processes else None
        """Workers of their own, so that a plan does not wait for conversions."""
        self.conversions = Conversions()
        """Converted definitions. In the thread only."""
        self._sizes: Sizes | None = None

    async def do(self, work: Callable[[], Result]) -> Result:
        """Do `work` in the thread. Raises what it raises, and Problem where too much of its agent's is waiting."""
        return await self.worker.do(work)

    async def stepwise(self, work: Callable[[], Steps[Result]]) -> Result:
        """Do `work`, a coroutine that may await `count` and `prepare`, in the thread. Raises as `do`."""
        return await stepwise(self.worker, work)

    @property
    def sizes(self) -> Sizes:
        """Sizes of tools in tokens. In the thread only: the first use loads the vocabulary."""
        if self._sizes is None:
            self._sizes = Sizes(LazyCounter())
        return self._sizes

    async def count(self, definitions: Mapping[bytes, bytes]) -> Sizes:
        """Sizes that hold those of raw definitions, by their keys. In steps only. New ones are counted in a process:
        loading the vocabulary alone would stop the loop for a quarter of a second.
        """
        sizes = self.sizes
        new = [key for key in definitions if not sizes.knows(key)]
        if new and self.counting is not None:
            parts = [new[start : start + PIECE] for start in range(0, len(new), PIECE)]
            pieces = [_encode([Raw(definitions[key]) for key in part]) for part in parts]
            for part, counts in zip(parts, await InProcesses(self.counting, COUNT, pieces) or (), strict=False):
                for key, size in zip(part, counts, strict=True):
                    sizes.keep(key, size)
        return sizes

    async def prepare(self, format_: Format, options: Options, definitions: Mapping[str, RawTool]) -> None:
        """Convert definitions in a process, and keep them by their keys. In steps only. Without processes nothing is
        done, and conversions are made where they are needed.
        """
        if self.converting is None:
            return
        keys = list(definitions)
        parts = [keys[start : start + PIECE] for start in range(0, len(keys), PIECE)]
        pieces = [_encode(Preparation(format_.name, options, [definitions[key] for key in part])) for part in parts]
        for part, tools in zip(parts, await InProcesses(self.converting, PREPARE, pieces) or (), strict=False):
            for key, prepared in zip(part, tools, strict=True):
                self.conversions.keep(format_, options, key, prepared)

    async def measure(self, body: list[bytes]) -> Measured:
        """The tokens of a request's conversation, and the request without it. Raises Problem."""
        if self.counting is not None:
            try:
                return await self.counting.do(MEASURE, body)
            except NotDone as error:
                refuse_or_log(error)
        return await self.worker.do(lambda: measure(b"".join(body)))

    async def repeats(self, body: bytes) -> bool:
        """Whether a member comes twice in an object of a body. Raises Problem."""
        if len(body) <= SMALL:
            return repeats(body)
        if self.counting is not None:
            try:
                return await self.counting.do(REPEATS, [body])
            except NotDone as error:
                refuse_or_log(error)
        return await self.worker.do(lambda: repeats(body))

    async def excess(self, document: bytes) -> str | None:
        """Reason not to decode a document (`read_bounds.explain_excess`); None if it may be decoded. Raises Problem."""
        return await self.reading(lambda: explain_excess(document), long=True) if is_long(document) else None

    async def reading(self, work: Callable[[], Result], *, long: bool) -> Result:
        """Read or write a document: here at once, or in the thread, in its turn, where it is `long` (`is_long`)."""
        if not long:
            return work()
        with in_turn():
            return await self.worker.do(work)

    async def aclose(self) -> None:
        """Drop what waits, and end the processes."""
        self.worker.close()
        for pool in (self.converting, self.counting):
            if pool is not None:
                await pool.aclose()
