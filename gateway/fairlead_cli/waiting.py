"""Pace of commands that wait until a gateway or an operator has done something."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

LOOK_SECONDS: Final = 0.25


def looks(seconds: float) -> Iterator[None]:
    """Yield whenever it is time to look again: at once, then every LOOK_SECONDS until `seconds` have passed."""
    end = time.monotonic() + seconds
    while True:
        yield
        if time.monotonic() >= end:
            return
        time.sleep(LOOK_SECONDS)
