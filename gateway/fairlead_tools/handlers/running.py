"""Runs handlers: their exceptions are kept apart from faults around them, and an `async` handler that blocks is
noticed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from fairlead_tools.handlers.problems import HandlerFailed

Held = Callable[[float], None]
"""Told the seconds of one step, after it."""


def guard(work: Callable[[], Any]) -> Any:
    """Result of `work`. Raises HandlerFailed for any exception of its, also for an attempt to end the process."""
    try:
        return work()
    except (Exception, SystemExit) as error:
        raise HandlerFailed(error) from error


async def awaited(work: Callable[[], Awaitable[Any]], held: Held) -> Any:
    """Result of the awaitable that `work` returns. Raises HandlerFailed, and CancelledError where somebody else
    cancelled.
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
    """An awaitable that times the steps of another: between two of them the loop is free, within one it is not."""

    def __init__(self, awaitable: Awaitable[Any], held: Held) -> None:
        self._awaitable = awaitable
        self._held = held

    def __await__(self) -> Generator[Any, Any, Any]:
        steps: Any = self._awaitable.__await__()
        if not hasattr(steps, "throw"):
            return (yield from steps)  # an iterator that takes nothing back
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
            except BaseException as error:  # noqa: BLE001  # thrown in by the task, for the handler
                step, value = steps.throw, error
