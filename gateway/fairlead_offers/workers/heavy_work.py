"""Work that would hold up the loop: conversions and sizes, which are kept, and long documents.

A thread does what needs the gateway's own state, processes do the rest. Without processes, or where they fail, the
thread does everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import Raw

from fairlead_formats.tokens.counting import LazyCounter
from fairlead_formats.tokens.sizes import Sizes
from fairlead_formats.tool_format import Format, Options
from fairlead_formats.tools.cache import Conversions
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_mcp.read_bounds import excess, is_long
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
from fairlead_offers.workers.pool import ProcessPool
from fairlead_offers.workers.process import NotDone
from fairlead_offers.workers.stepwise import InProcesses, Steps, refuse_or_log, stepwise
from fairlead_offers.workers.throttle import Throttle
from fairlead_offers.workers.worker import WorkerThread, in_turn

PIECE: Final = 256
"""Definitions that a process gets at once."""
SMALL: Final = 16 << 10
"""Bytes of a body that is looked through in the loop, in less than a millisecond as a rule."""

Result = TypeVar("Result")
_encode: Final = msgspec.json.Encoder().encode


class HeavyWork:
    """Does heavy work in turns of the agents that it is for. One per gateway."""

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
        """Do `work`, a coroutine that may await `counted` and `prepare`, in the thread. Raises as `do`."""
        return await stepwise(self.worker, work)

    @property
    def sizes(self) -> Sizes:
        """Sizes of tools in tokens. In the thread only: the first use loads the vocabulary."""
        if self._sizes is None:
            self._sizes = Sizes(LazyCounter())
        return self._sizes

    async def counted(self, definitions: Mapping[bytes, bytes]) -> Sizes:
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

    async def measured(self, body: list[bytes]) -> Measured:
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
        """Reason not to decode a document, as `read_bounds.excess`; None where it may be decoded. Raises Problem."""
        return await self.reading(lambda: excess(document), long=True) if is_long(document) else None

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
