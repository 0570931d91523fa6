"""Controls the garbage collector of a gateway process: long-lived objects are frozen, full collections run when idle.

A full collection visits every object that can be part of a cycle. It takes 75 ms with 1,000 tools and 150 ms with
10,000, during which no call is served. It finds almost nothing, because neither calls nor catalogs form cycles. So
after each activation of a catalog, all live objects are frozen (`gc.freeze`): they are still freed by reference counts,
but collections ignore them. A full collection of all other objects takes less than 1 ms. Frozen objects may become
garbage in cycles, for example tracebacks; a *thaw* unfreezes all objects, collects, and freezes again. A thaw runs
while the process is idle, or after many large activations.
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
"""Arguments of `gc.set_threshold`.

The first is 10,000. Python's 700 (2,000 from 3.13 on) would be exceeded by the objects of 64 calls in flight:
collections would run all the time and promote calls to the oldest generation, which triggers full collections. 10,000
objects are enough for 250 calls in flight, and visiting them takes about 1 ms.

The second keeps the middle generation below 30,000 objects. With Python's 10, the documents of 10,000 tools fill it
with ten times as many, and collecting them delayed calls by 8 ms.

The third is a last resort for a process that is never idle: full collections run after more than ten million objects
were created and not freed by reference counts.
"""
CHECK_SECONDS: Final = 5.0
"""Interval between checks whether the process is idle."""
IDLE_SHARE: Final = 0.01
"""Share of a CPU core below which the process is idle."""
THAW_SECONDS: Final = 600.0
"""Shortest time between two thaws."""
MAX_CREATED_OBJECTS: Final = 2_000_000
"""Number of objects, created in activations since the last thaw, above which a thaw no longer waits for the process to
be idle; ten activations with 10,000 tools create as many. The objects are counted when they are created, since counting
all frozen objects (`gc.get_freeze_count`) takes 10 ms and more.
"""


class Heap:
    """Controls the process's garbage collector between `start` and `stop`.

    `owner` is false in a program that runs a gateway among other things and configures the collector itself; then the
    collector is only paused during activations. `clock` is a monotonic clock, `cpu_seconds` the CPU time that the
    process has used, both in seconds.
    """

    def __init__(
        self,
        *,
        owner: bool = True,
        clock: Callable[[], float] = time.monotonic,
        cpu_seconds: Callable[[], float] = time.process_time,
    ) -> None:
        self._owner = owner
        self._clock = clock
        self._cpu_seconds = cpu_seconds
        self._thresholds: tuple[int, int, int] | None = None
        self._checker: asyncio.Task[None] | None = None
        self._last_check = (clock(), cpu_seconds())
        """Time and used CPU time at the last check."""
        self._thawed_at = clock()
        self._collections_at_thaw = 0
        """Number of collections of the youngest generation at the end of the last thaw."""
        self._created_in_activations = 0
        """Objects created in activations since the last thaw."""
        self._collection_started_at = 0.0
        self.full_seconds = 0.0
        """Total duration of full collections since the start."""

    def start(self) -> None:
        """Take control of the collector, if this is its owner. Has to be called in the event loop."""
        if not self._owner:
            return
        self._thresholds = gc.get_threshold()
        gc.callbacks.append(self._watch)
        gc.set_threshold(*THRESHOLDS)
        self.thaw()
        self._checker = asyncio.get_running_loop().create_task(self._check_often(), name="heap")

    async def stop(self) -> None:
        """Restore the previous configuration of the collector."""
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
    def pause_collection(self) -> Iterator[None]:
        """Context of an activation, which creates many long-lived objects. Within it, the collector is paused: it
        would visit the new objects again and again, for 100 ms in total with 10,000 tools. At the end, all live objects
        are frozen.
        """
        gc.collect(0 if self._checker is not None else 1)
        gc.disable()
        try:
            yield
            if self._checker is not None:
                self._created_in_activations += gc.get_count()[0]
                gc.freeze()
        finally:
            gc.enable()

    def thaw(self) -> None:
        """Collect all garbage, including frozen objects, and freeze the rest. Takes as long as a full collection."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._thawed_at = self._clock()
        self._created_in_activations = 0
        self._collections_at_thaw = _young_collections()

    def check(self) -> None:
        """Thaw if there may be garbage and the process is idle, or if there may be too much garbage."""
        (last_time, last_cpu_seconds), now = self._last_check, (self._clock(), self._cpu_seconds())
        self._last_check = now
        may_have_garbage = self._created_in_activations > 0 or _young_collections() > self._collections_at_thaw
        if now[0] - self._thawed_at < THAW_SECONDS or not may_have_garbage:
            return
        if now[1] - last_cpu_seconds < IDLE_SHARE * (now[0] - last_time):
            self.thaw()
        elif self._created_in_activations > MAX_CREATED_OBJECTS:
            log.info(
                "full garbage collection while calls run: catalogs added %d objects since the last full collection",
                self._created_in_activations,
            )
            self.thaw()

    async def _check_often(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            self.check()

    def _watch(self, phase: str, info: dict[str, int]) -> None:
        """Measure full collections. This is a callback of `gc`, called before and after each collection."""
        if info["generation"] == 2:
            if phase == "start":
                self._collection_started_at = time.perf_counter()
            else:
                self.full_seconds += time.perf_counter() - self._collection_started_at


def _young_collections() -> int:
    return int(gc.get_stats()[0]["collections"])
