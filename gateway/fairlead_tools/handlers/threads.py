"""Threads for handlers that block: a bounded number, made when needed, and never waited for at the end.

The executors of the standard library join their threads when the process ends, so that one handler that hangs would
keep the gateway from ending. These are daemons.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, TypeVar

Returned = TypeVar("Returned")
_Job = tuple["Future[Any]", Callable[[], Any]]


class Threads(Executor):
    """At most `limit` threads; what comes while all are busy waits its turn."""

    def __init__(self, limit: int, name: str) -> None:
        self._limit = limit
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0
        self._idle = 0
        self._closed = False

    def submit(self, work: Callable[..., Returned], /, *args: Any, **kwargs: Any) -> Future[Returned]:
        """Have `work` done in a thread. Raises RuntimeError after `shutdown`."""
        future: Future[Returned] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("these threads are no longer there")
            self._jobs.put((future, lambda: work(*args, **kwargs)))
            if self._idle > 0:
                self._idle -= 1  # one that waits will take it
            elif self._count < self._limit:
                self._count += 1
                threading.Thread(target=self._run, name=f"{self._name} {self._count}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = True) -> None:
        """Take no more work, and drop what has not begun. What runs is not waited for, whatever `wait` says."""
        with self._lock:
            self._closed = True
            for _ in range(self._count):
                self._jobs.put(None)

    def _run(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            self._do(*job)
            del job  # or it would keep the last result alive until the next job
            with self._lock:
                if self._jobs.empty():
                    self._idle += 1

    def _do(self, future: Future[Any], work: Callable[[], Any]) -> None:
        if self._closed:
            future.cancel()
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001  # as the executors of the standard library: it is the caller's
            future.set_exception(error)
        else:
            future.set_result(result)
