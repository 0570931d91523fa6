"""Tests in virtual time: nothing waits, the clock of the loop goes on to the next timer as soon as nothing is ready."""

from __future__ import annotations

from typing import Final

import pytest

in_virtual_time: Final = pytest.mark.looptime(start=0, noop_cycles=0)
"""Mark of tests that talk to nobody outside of their loop.

looptime looks 42 times more for news from outside before each step of its clock, which was nine tenths of the time that
such a test took. Tests with sockets or child processes do need it: they have `looptime` itself.
"""


class HandClock:
    """Clock that stands still until a test sets `now`, in seconds."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
