"""Waiting in commands: polling of a gateway or an operator, and a spinner meanwhile."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Final

POLL_SECONDS: Final = 0.25


def attempts(seconds: float) -> Iterator[None]:
    """Yield at each attempt: at once, then every POLL_SECONDS until `seconds` have passed."""
    end = time.monotonic() + seconds
    while True:
        yield
        if time.monotonic() >= end:
            return
        time.sleep(POLL_SECONDS)


def spinner(text: str) -> contextlib.AbstractContextManager[object]:
    """Context with a spinner, if standard error is a terminal."""
    if not sys.stderr.isatty():
        return contextlib.nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(text)
