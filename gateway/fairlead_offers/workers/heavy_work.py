"""Runs work that would block the event loop, such as conversions and token counts, in a thread or in processes.

The thread does work that needs the gateway's state, and processes (`pool`) do the rest. Without processes, or if they
fail, the thread does everything. The thread has a bounded queue.

The thread and the event loop share the interpreter lock, so work that takes over half a millisecond must pause with
`with_pauses`; otherwise calls in flight would wait until the interpreter takes the lock away (its switch interval).
Work that needs results of processes is a coroutine: its steps run in the thread (`HeavyWork.run_in_steps`), and between
the steps it awaits `InProcesses`.
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
    MeasuredRequest,
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
"""Maximum number of pieces of work in the queue. If a further piece arrives, the newest piece of the agent with the
most pieces is refused.
"""
THREAD_SLOTS: Final = 2
"""Number of pieces of work that are handed to the thread: one that runs, and one that can follow without a delay."""
PAUSE_S: Final = 5e-5
"""Seconds of a pause, which is long enough for the kernel to hand the interpreter over to the event loop."""
STRIDE: Final = 8
"""Number of tools between two pauses of the thread; one tool takes about 50 µs."""


_NEVER_REFUSED: Final[ContextVar[bool]] = ContextVar("never_refused", default=False)
Steps: TypeAlias = Coroutine["InProcesses[Any]", "list[Any] | None", Result]
log = logging.getLogger(__name__)
PIECE_DEFINITIONS: Final = 256
"""Number of definitions in one piece of work for a process."""
SMALL: Final = 16 << 10
"""Maximum number of bytes of a body that is checked in the event loop, which usually takes less than a millisecond."""
_encode: Final = msgspec.json.Encoder().encode


@contextlib.contextmanager
def never_refuse() -> Iterator[None]:
    """Let work of this task, and of tasks that this task starts, wait in the full queue instead of being refused. Use
    it for requests that have a time limit and have already run tools: after a refusal, the client would repeat the
    request, and thus the calls.
    """
    token = _NEVER_REFUSED.set(True)
    try:
        yield
    finally:
        _NEVER_REFUSED.reset(token)


class WorkerThread:
    """Thread that runs one piece of work at a time, with a fair queue for the agents."""

    def __init__(self, counts: ShareCounts | None = None) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rest")
        self._turns = FairTurns(THREAD_SLOTS, MAX_WAITING, counts)

    async def do(self, work: Callable[[], Result]) -> Result:
        """Run `work` in the thread when it is its agent's turn. Raises the exceptions of `work`, and Problem if too
        much of the agent's work is waiting, unless `never_refuse` applies.
        """
        try:
            async with self._turns.turn(patient=_NEVER_REFUSED.get()):
                return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except ShareTaken as reached:
            raise Problem(RATE_LIMITED, TOO_MUCH, retry_after_ms=1000) from reached

    def close(self) -> None:
        """Drop waiting work. Running work continues to its end."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def with_pauses(items: Iterable[Item], stride: int = STRIDE) -> Iterator[Item]:
    """Yield the items, and pause after every `stride` items so that the event loop can run."""
    for number, item in enumerate(items, 1):
        yield item
        if number % stride == 0:
            time.sleep(PAUSE_S)


class InProcesses(Generic[Answer]):
    """Awaitable for pieces of work in a pool of processes. Its result is the list of answers in order, or None if the
    processes failed and the thread must do the work.
    """

    def __init__(self, pool: ProcessPool, job: Job[Answer], pieces: Sequence[bytes]) -> None:
        self._pool = pool
        self._job = job
        self._pieces = pieces

    def __await__(self) -> Generator[InProcesses[Answer], list[Answer] | None, list[Answer] | None]:
        return (yield self)

    async def answers(self) -> list[Answer] | None:
        """Run the pieces of work, from the event loop. Raises Problem if too much work is waiting."""
        try:
            return [await self._pool.do(self._job, piece) for piece in self._pieces]
        except NotDone as error:
            refuse_or_log(error)
            return None


async def run_in_steps(worker: WorkerThread, work: Callable[[], Steps[Result]]) -> Result:
    """Run the coroutine that `work` makes, with its steps in the thread. Raises the exceptions of the coroutine, and
    Problem if too much work is waiting.
    """
    run = _Run(work)
    answers: list[Any] | None = None
    while True:
        awaited = await worker.do(partial(run.step, answers))
        if awaited is None:
            return run.result
        answers = await awaited.answers()


class _Run(Generic[Result]):
    """Run of a coroutine in steps. The coroutine is made in the thread at its first step, so that work that is refused
    before leaves no coroutine that was never awaited.
    """

    result: Result

    def __init__(self, work: Callable[[], Steps[Result]]) -> None:
        self._work = work
        self._steps: Steps[Result] | None = None

    def step(self, answers: list[Any] | None) -> InProcesses[Any] | None:
        """Run the coroutine to its next `await`. Returns the awaited work, or None at the end."""
        if self._steps is None:
            self._steps = self._work()
        try:
            return self._steps.send(answers)
        except StopIteration as end:
            self.result = end.value
            return None


def refuse_or_log(error: NotDone) -> None:
    """Raise Problem if too much work is waiting, else log the failure of a process."""
    if isinstance(error, Overloaded):
        raise Problem(RATE_LIMITED, str(error), retry_after_ms=1000) from error
    log.warning("A worker process failed, so its work is done in the gateway's thread: %s", error)


class HeavyWork:
    """Runs heavy work of all agents, who take turns. Each gateway has one instance."""

    def __init__(self, throttle: Throttle, shares: ShareCounts, processes: int = 0) -> None:
        """`processes`: maximum number of processes of each kind; 0: the thread does everything."""
        self.worker = WorkerThread(shares)
        self.throttle = throttle
        """Throttle for conversions of callers' definitions. Definitions of served tools are converted without a
        throttle, because that happens only once.
        """
        self.conversion_pool = ProcessPool(processes, bulk=True, counts=shares) if processes else None
        self.counting_pool = ProcessPool(processes, counts=shares) if processes else None
        """Separate processes for counting, so that plans do not wait for conversions."""
        self.conversions = Conversions()
        """Cache of converted definitions, which only the thread may use."""
        self._sizes: Sizes | None = None

    async def do(self, work: Callable[[], Result]) -> Result:
        """Run `work` in the thread. Raises the exceptions of `work`, and Problem if too much of its agent's work is
        waiting.
        """
        return await self.worker.do(work)

    async def run_in_steps(self, work: Callable[[], Steps[Result]]) -> Result:
        """Run the coroutine that `work` makes, with its steps in the thread; the coroutine may await `count` and
        `prepare`. Raises the same as `do`.
        """
        return await run_in_steps(self.worker, work)

    @property
    def sizes(self) -> Sizes:
        """Token counts of tools. Only the thread may use it: the first use loads the tokenizer's vocabulary, which
        would block the event loop.
        """
        if self._sizes is None:
            self._sizes = Sizes(LazyCounter())
        return self._sizes

    async def count(self, definitions: Mapping[bytes, bytes]) -> Sizes:
        """Count the tokens of raw definitions, passed by key, and return the cache that contains them. Must be awaited
        in `run_in_steps`. New definitions are counted in a process, because loading the vocabulary alone would block
        the event loop for a quarter of a second.
        """
        sizes = self.sizes
        new_keys = [key for key in definitions if not sizes.has(key)]
        if new_keys and self.counting_pool is not None:
            parts = [
                new_keys[start : start + PIECE_DEFINITIONS] for start in range(0, len(new_keys), PIECE_DEFINITIONS)
            ]
            pieces = [_encode([Raw(definitions[key]) for key in part]) for part in parts]
            for part, counts in zip(parts, await InProcesses(self.counting_pool, COUNT, pieces) or (), strict=False):
                for key, size in zip(part, counts, strict=True):
                    sizes.keep(key, size)
        return sizes

    async def prepare(self, format_: Format, options: Options, definitions: Mapping[str, RawTool]) -> None:
        """Convert definitions, passed by key, in a process, and cache them. Must be awaited in `run_in_steps`. Without
        processes this does nothing, and definitions are converted when they are needed.
        """
        if self.conversion_pool is None:
            return
        keys = list(definitions)
        parts = [keys[start : start + PIECE_DEFINITIONS] for start in range(0, len(keys), PIECE_DEFINITIONS)]
        pieces = [_encode(Preparation(format_.name, options, [definitions[key] for key in part])) for part in parts]
        for part, tools in zip(parts, await InProcesses(self.conversion_pool, PREPARE, pieces) or (), strict=False):
            for key, prepared in zip(part, tools, strict=True):
                self.conversions.keep(format_, options, key, prepared)

    async def measure(self, body: list[bytes]) -> MeasuredRequest:
        """Count the tokens of a request's conversation, and return them with the rest of the request.
        Raises Problem.
        """
        if self.counting_pool is not None:
            try:
                return await self.counting_pool.do(MEASURE, body)
            except NotDone as error:
                refuse_or_log(error)
        return await self.worker.do(lambda: measure(b"".join(body)))

    async def repeats(self, body: bytes) -> bool:
        """Whether an object of a body has a member twice. Raises Problem."""
        if len(body) <= SMALL:
            return repeats(body)
        if self.counting_pool is not None:
            try:
                return await self.counting_pool.do(REPEATS, [body])
            except NotDone as error:
                refuse_or_log(error)
        return await self.worker.do(lambda: repeats(body))

    async def excess(self, document: bytes) -> str | None:
        """Reason not to decode a document, such as `more than 200,000 values`; None if it may be decoded. Raises
        Problem.
        """
        return await self.process_document(lambda: explain_excess(document), long=True) if is_long(document) else None

    async def process_document(self, work: Callable[[], Result], *, long: bool) -> Result:
        """Run `work`, which reads or writes a document: at once, or in the thread without refusal if the document is
        `long` (`is_long`).
        """
        if not long:
            return work()
        with never_refuse():
            return await self.worker.do(work)

    async def aclose(self) -> None:
        """Drop waiting work, and end the processes."""
        self.worker.close()
        for pool in (self.conversion_pool, self.counting_pool):
            if pool is not None:
                await pool.aclose()
