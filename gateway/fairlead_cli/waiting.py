"""Polling by commands that wait for a gateway or an operator."""

from __future__ import annotations

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
