"""Runs the requests of `fairlead top` in threads, so that neither the screen nor the exit of the program is blocked
when the gateway does not respond.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from fairlead_cli.failure import Failure

Result = TypeVar("Result")


class RepeatedRequest(Generic[Result]):
    """Repeats a request every `interval` seconds in a daemon thread, and delivers each outcome in that thread."""

    def __init__(
        self, request: Callable[[], Result], interval: float, deliver: Callable[[Result | Failure], object]
    ) -> None:
        self._request = request
        self._interval = interval
        self._deliver = deliver
        self._end_event = threading.Event()
        self._resume_event = threading.Event()
        """Set while the requests are not paused."""
        self._resume_event.set()

    def start(self) -> None:
        """Start the thread; the first request is made after one interval."""
        threading.Thread(target=self._run, daemon=True).start()

    def pause(self, is_paused: bool) -> None:
        """Pause or resume the requests."""
        if is_paused:
            self._resume_event.clear()
        else:
            self._resume_event.set()

    def end(self) -> None:
        """Make no further request, and do not wait for a running request."""
        self._end_event.set()
        self._resume_event.set()

    def _run(self) -> None:
        while not self._end_event.wait(self._interval):
            self._resume_event.wait()
            if not self._end_event.is_set():
                self._deliver(outcome_of(self._request))


def request_once(request: Callable[[], Result], deliver: Callable[[Result | Failure], object]) -> None:
    """Do one request in a daemon thread, and deliver its outcome in that thread."""
    threading.Thread(target=lambda: deliver(outcome_of(request)), daemon=True).start()


def outcome_of(request: Callable[[], Result]) -> Result | Failure:
    """The result of the request, or its failure; other exceptions would end the thread unnoticed."""
    try:
        return request()
    except Failure as error:
        return error
    except Exception as error:  # noqa: BLE001  # the screen shows it
        return Failure(f"internal error: {type(error).__name__}: {error}".rstrip(".") + "; please report it.")
