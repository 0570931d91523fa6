"""Runs handlers: wraps their exceptions, and measures for how long an `async` handler blocks the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from fairlead_tools.handlers.problems import HandlerFailed

OnStep = Callable[[float], None]
"""Called after each step of an `async` handler with the seconds for which the step blocked the event loop."""


def guard(work: Callable[[], Any]) -> Any:
    """Return the result of `work`. Exceptions of `work`, including SystemExit, become HandlerFailed."""
    try:
        return work()
    except (Exception, SystemExit) as error:
        raise HandlerFailed(error) from error


async def await_handler(work: Callable[[], Awaitable[Any]], on_step: OnStep) -> Any:
    """Return the result of the awaitable that `work` returns. Exceptions of `work` and of the awaitable become
    HandlerFailed. Raises CancelledError if the task is canceled from outside.
    """
    try:
        return await Stepped(work(), on_step)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise HandlerFailed(RuntimeError("the tool canceled itself")) from error
    except (Exception, SystemExit) as error:
        raise HandlerFailed(error) from error


class Stepped:
    """Awaitable that runs another awaitable and measures its steps: the event loop is blocked during each step."""

    def __init__(self, awaitable: Awaitable[Any], on_step: OnStep) -> None:
        self._awaitable = awaitable
        self._on_step = on_step

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
                self._on_step(time.perf_counter() - began)
            try:
                step, value = steps.send, (yield yielded)
            except BaseException as error:  # noqa: BLE001  # the task throws it into the handler
                step, value = steps.throw, error
