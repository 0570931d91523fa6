"""Executor of daemon threads for blocking handlers.

The executors of the standard library join their threads when the process exits, so that a hanging handler would keep
the gateway from exiting. Daemon threads are not joined.
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
    """Executor with at most `limit` threads, started on demand; further work is queued."""

    def __init__(self, limit: int, name: str) -> None:
        self._limit = limit
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread_count = 0
        """Number of threads that were started."""
        self._idle_count = 0
        """Number of threads that wait for a job, less the jobs that are queued for them."""
        self._is_closed = False

    def submit(self, work: Callable[..., Returned], /, *args: Any, **kwargs: Any) -> Future[Returned]:
        """Run `work` in a thread. Raises RuntimeError after `shutdown`."""
        future: Future[Returned] = Future()
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the executor was shut down")
            self._jobs.put((future, lambda: work(*args, **kwargs)))
            if self._idle_count > 0:
                self._idle_count -= 1  # an idle thread takes the job
            elif self._thread_count < self._limit:
                self._thread_count += 1
                threading.Thread(target=self._run, name=f"{self._name} {self._thread_count}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = True) -> None:
        """Accept no more work and cancel queued work. Never waits for running work, even with `wait`."""
        with self._lock:
            self._is_closed = True
            for _ in range(self._thread_count):
                self._jobs.put(None)

    def _run(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            self._do(*job)
            del job  # otherwise the last result would stay alive until the next job
            with self._lock:
                if self._jobs.empty():
                    self._idle_count += 1

    def _do(self, future: Future[Any], work: Callable[[], Any]) -> None:
        if self._is_closed:
            future.cancel()
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001  # as in the standard library's executors
            future.set_exception(error)
        else:
            future.set_result(result)
