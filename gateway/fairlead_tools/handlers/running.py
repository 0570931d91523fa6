"""Runs handlers: wraps their exceptions, and measures for how long an `async` handler blocks the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from fairlead_tools.handlers.problems import HandlerFailed

Held = Callable[[float], None]
"""Callback after each step of an `async` handler, with the duration of the step in seconds."""


def guard(work: Callable[[], Any]) -> Any:
    """Return the result of `work`. Raises HandlerFailed for its exceptions, including SystemExit."""
    try:
        return work()
    except (Exception, SystemExit) as error:
        raise HandlerFailed(error) from error


async def await_handler(work: Callable[[], Awaitable[Any]], held: Held) -> Any:
    """Return the result of the awaitable that `work` returns. Raises HandlerFailed for its exceptions, and
    CancelledError if the task is canceled from outside.
    """
    try:
        return await Stepped(work(), held)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise HandlerFailed(RuntimeError("the tool canceled itself")) from error
    except (Exception, SystemExit) as error:
        raise HandlerFailed(error) from error


class Stepped:
    """Awaitable that runs another awaitable and measures its steps: the event loop is blocked during each step."""

    def __init__(self, awaitable: Awaitable[Any], held: Held) -> None:
        self._awaitable = awaitable
        self._held = held

    def __await__(self) -> Generator[Any, Any, Any]:
        steps: Any = self._awaitable.__await__()
        if not hasattr(steps, "throw"):
            return (yield from steps)  # a plain iterator cannot be stepped by `send`
        step, value = steps.send, None
        while True:
            began = time.perf_counter()
            try:
                yielded = step(value)
            except StopIteration as stop:
                return stop.value
            finally:
                self._held(time.perf_counter() - began)
            try:
                step, value = steps.send, (yield yielded)
            except BaseException as error:  # noqa: BLE001  # the task throws it into the handler
                step, value = steps.throw, error
