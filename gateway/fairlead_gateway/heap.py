"""The garbage collector of a gateway's process: objects that live long are frozen, full collections wait for idleness.

A full collection looks at every object that can be part of a cycle: 75 ms with 1,000 tools, 150 with 10,000, in which
no call is answered, and it finds next to nothing, as neither calls nor catalogs are cycles. So after each swap
everything alive is frozen (`gc.freeze`): it is freed when its last reference goes, but not looked at again. What is not
frozen takes a full collection less than 1 ms. Cycles that end after they were frozen, such as tracebacks, wait for a
thaw: everything is unfrozen, collected and frozen again, while the process is idle, or after many large swaps.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

log = logging.getLogger(__name__)

THRESHOLDS: Final = (10_000, 1, 500)
"""As `gc.set_threshold` takes them. Python's own first one, 700 (2,000 from 3.13 on), is passed by the objects of 64
calls in flight: collections then run all the time and promote calls to the oldest generation, which makes full
collections due. 10,000 holds 250 calls in flight, and looking at so many young objects takes about 1 ms. The second
keeps the middle generation below 30,000 objects: with Python's own, 10, the documents of 10,000 tools fill it with ten
times as many, and a collection of those delayed calls by 8 ms. The third is a bound of last resort, for a process that
is never idle: more than ten million objects made and not freed by reference counts.
"""
CHECK_SECONDS: Final = 5.0
"""How often it is looked whether the process is idle."""
IDLE_SHARE: Final = 0.01
"""Share of a core below which the process is idle."""
THAW_SECONDS: Final = 600.0
"""At least, between two thaws."""
MOST_FROZEN: Final = 2_000_000
"""Objects made in swaps, ten of 10,000 tools, after which a thaw no longer waits for the process to be idle. They are
counted as they are made, for to count those that are left (`gc.get_freeze_count`) takes 10 ms and more.
"""


class Heap:
    """Owns the process's garbage collector between `start` and `stop`, unless `owner` is false: a program that runs a
    gateway among other things decides on its collector itself, and only has it rest during a swap. `clock` and `busy`
    are in seconds, the latter of processor time.
    """

    def __init__(
        self,
        *,
        owner: bool = True,
        clock: Callable[[], float] = time.monotonic,
        busy: Callable[[], float] = time.process_time,
    ) -> None:
        self._owner = owner
        self._clock = clock
        self._busy = busy
        self._thresholds: tuple[int, int, int] | None = None
        self._checker: asyncio.Task[None] | None = None
        self._checked = (clock(), busy())
        self._thawed_at = clock()
        self._young = 0
        """Collections of the youngest generation when the last thaw was over."""
        self._swapped = 0
        """Objects made in swaps since the last thaw."""
        self._began = 0.0
        self.full_seconds = 0.0
        """Spent in full collections since the start."""

    def start(self) -> None:
        """Take the collector over, if it is ours. Called in the loop."""
        if not self._owner:
            return
        self._thresholds = gc.get_threshold()
        gc.callbacks.append(self._watch)
        gc.set_threshold(*THRESHOLDS)
        self.thaw()
        self._checker = asyncio.get_running_loop().create_task(self._check_often(), name="heap")

    async def stop(self) -> None:
        """Leave the collector as it was found."""
        if self._checker is None or self._thresholds is None:
            return
        self._checker.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._checker
        gc.callbacks.remove(self._watch)
        gc.set_threshold(*self._thresholds)
        gc.unfreeze()
        self._checker = self._thresholds = None

    @contextmanager
    def building(self) -> Iterator[None]:
        """Within, much is made that stays: the collector would look at it again and again, for a tenth of a second with
        10,000 tools. When it ends, everything alive is frozen.
        """
        gc.collect(0 if self._checker is not None else 1)
        gc.disable()
        try:
            yield
            if self._checker is not None:
                self._swapped += gc.get_count()[0]
                gc.freeze()
        finally:
            gc.enable()

    def thaw(self) -> None:
        """Collect all garbage there is, and freeze the rest: a pause as long as a full collection."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._thawed_at = self._clock()
        self._swapped = 0
        self._young = _young_collections()

    def check(self) -> None:
        """Thaw if there may be garbage and nobody has to wait for it, or too much may have gathered."""
        (before, used), now = self._checked, (self._clock(), self._busy())
        self._checked = now
        if now[0] - self._thawed_at < THAW_SECONDS or not (self._swapped or _young_collections() > self._young):
            return
        if now[1] - used < IDLE_SHARE * (now[0] - before):
            self.thaw()
        elif self._swapped > MOST_FROZEN:
            log.info("Collecting garbage under load: swaps made %d objects since the last time", self._swapped)
            self.thaw()

    async def _check_often(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            self.check()

    def _watch(self, phase: str, info: dict[str, int]) -> None:
        """Time full collections; a callback of `gc`, before and after each collection."""
        if info["generation"] == 2:
            if phase == "start":
                self._began = time.perf_counter()
            else:
                self.full_seconds += time.perf_counter() - self._began


def _young_collections() -> int:
    return int(gc.get_stats()[0]["collections"])
