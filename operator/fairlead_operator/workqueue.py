"""A work queue of keys to reconcile: one entry and at most one worker per key, with delays and back-off.

The queue does not depend on Kubernetes. Everything runs in one event loop, in which `add` may be called at any time,
also before `run`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from fairlead_operator.outcome import Done, Outcome, Stalled, Waiting

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

MIN_DELAY_S: Final = 0.001
"""Minimum delay in seconds. An event loop may run timers early by the resolution of its clock; without the minimum, a
key that is almost due would be reconciled repeatedly until it is.
"""


@dataclass(frozen=True)
class ItemBackoff:
    """Delay in seconds after the n-th failure in a row: `first * 2**(n-1)`, at most `limit`, varied at random by up to
    the fraction `jitter`.
    """

    first: float = 0.5
    limit: float = 60.0
    jitter: float = 0.2

    def delay(self, failures: int, rng: random.Random) -> float:
        """Seconds to wait after `failures` (>= 1) failures in a row."""
        mean = min(self.limit, self.first * 2.0 ** min(failures - 1, 32))
        return mean * (1 + self.jitter * (2 * rng.random() - 1))


class WorkQueue(Generic[K]):
    """Queue of keys that are due, delayed or being processed.

    A key that is added while it is processed is processed once more afterwards, even if it is added several times. A
    delayed key that is added becomes due at once.
    """

    def __init__(
        self,
        *,
        workers: int = 16,
        backoff: ItemBackoff | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._workers = workers
        self._backoff = backoff or ItemBackoff()
        self._rng = rng or random.Random()
        self._due_keys: dict[K, None] = {}
        self._active_keys: set[K] = set()
        self._added_while_active: set[K] = set()
        """Keys that were added while they were processed."""
        self._delay_timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def __repr__(self) -> str:
        return (
            f"<WorkQueue due={len(self._due_keys)} active={len(self._active_keys)} delayed={len(self._delay_timers)}>"
        )

    @property
    def depth(self) -> int:
        """Number of keys that are due and wait for a worker."""
        return len(self._due_keys)

    @property
    def active_count(self) -> int:
        """Number of keys that are being processed."""
        return len(self._active_keys)

    def add(self, key: K) -> None:
        """Process `key` as soon as a worker is free."""
        self._cancel_delay(key)
        if key in self._active_keys:
            self._added_while_active.add(key)
        else:
            self._due_keys[key] = None
            self._idle.clear()
            self._wake.set()

    def add_after(self, key: K, delay: float) -> None:
        """Process `key` in `delay` seconds, unless it is due earlier."""
        if delay <= 0:
            self.add(key)
            return
        if key in self._due_keys or key in self._added_while_active:
            return
        loop = asyncio.get_running_loop()
        timer = self._delay_timers.get(key)
        if timer is not None and timer.when() <= loop.time() + delay:
            return
        self._cancel_delay(key)
        self._delay_timers[key] = loop.call_later(max(delay, MIN_DELAY_S), self.add, key)

    def forget(self, key: K) -> None:
        """Drop the delay and the failures of a key that no longer exists."""
        self._cancel_delay(key)
        self._failures.pop(key, None)

    async def wait_until_idle(self) -> None:
        """Wait until no key is due or being processed; delayed keys do not count."""
        await self._idle.wait()

    async def run(self, work: Callable[[K], Awaitable[Outcome]]) -> None:
        """Process due keys with `work` until cancelled, which cancels running work too."""
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    group.create_task(self._worker(work), name=f"queue-worker-{number}")
        finally:
            for key in list(self._delay_timers):
                self._cancel_delay(key)

    def _cancel_delay(self, key: K) -> None:
        timer = self._delay_timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    async def _worker(self, work: Callable[[K], Awaitable[Outcome]]) -> None:
        while True:
            while not self._due_keys:
                self._wake.clear()
                await self._wake.wait()
            key = next(iter(self._due_keys))
            del self._due_keys[key]
            self._active_keys.add(key)
            outcome: Outcome | None = None
            try:
                outcome = await work(key)
            except Exception:
                logger.exception("the reconcile of %s failed unexpectedly and will be retried", key)
            finally:
                self._active_keys.discard(key)
            self._schedule_next(key, outcome)

    def _schedule_next(self, key: K, outcome: Outcome | None) -> None:
        """Schedule the next run of a key by the outcome of its last run."""
        match outcome:
            case Done(delay_s) | Stalled(_, delay_s):
                self._failures.pop(key, None)
            case Waiting(_, float() | int() as delay_s):
                self._failures.pop(key, None)
            case _:
                failures = self._failures[key] = self._failures.get(key, 0) + 1
                delay_s = self._backoff.delay(failures, self._rng)
        if key in self._added_while_active:
            self._added_while_active.discard(key)
            self.add(key)
        elif delay_s is not None:
            self.add_after(key, delay_s)
        if not self._due_keys and not self._active_keys:
            self._idle.set()
