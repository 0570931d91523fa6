"""Threads that run blocking handlers."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import CancelledError, Future

import pytest

from fairlead_tools.handlers.threads import Threads
from waiting import until


def test_no_more_than_the_limit_run_at_once_and_the_rest_waits_its_turn() -> None:
    threads = Threads(2, "test")
    begun = threading.Semaphore(0)
    released = threading.Event()

    def work(number: int) -> int:
        begun.release()
        released.wait(20)
        return number

    futures: list[Future[int]] = [threads.submit(work, number) for number in range(5)]
    assert begun.acquire(timeout=20)
    assert begun.acquire(timeout=20)
    assert sum(future.running() for future in futures) == 2
    released.set()
    assert [future.result(20) for future in futures] == [0, 1, 2, 3, 4]
    threads.shutdown()


def test_an_idle_thread_is_used_again() -> None:
    threads = Threads(50, "test")
    first = threads.submit(threading.get_ident).result(20)
    until("the thread is back", lambda: threads._idle_count == 1, seconds=20)
    assert threads.submit(threading.get_ident).result(20) == first
    threads.shutdown()


def test_work_that_has_not_begun_at_shutdown_is_dropped() -> None:
    threads = Threads(1, "test")
    begun = threading.Event()
    released = threading.Event()

    def work() -> None:
        begun.set()
        released.wait(20)

    running = threads.submit(work)
    waiting = threads.submit(work)
    assert begun.wait(20)
    threads.shutdown()
    released.set()
    running.result(20)
    with pytest.raises(CancelledError):
        waiting.result(20)
    with pytest.raises(RuntimeError):
        threads.submit(work)


def test_a_thread_that_hangs_does_not_keep_the_process_from_ending() -> None:
    program = (
        "import threading\n"
        "from fairlead_tools.handlers.threads import Threads\n"
        "Threads(1, 'test').submit(threading.Event().wait)\n"
        "print('end')\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=40, check=True)
    assert ended.stdout == "end\n"
