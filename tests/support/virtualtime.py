"""Tests in virtual time: instead of waiting, the loop advances its clock to the next timer when nothing is ready."""

from __future__ import annotations

from typing import Final

import pytest

in_virtual_time: Final = pytest.mark.looptime(start=0, noop_cycles=0)
"""Mark of tests that communicate with nothing outside of their loop.

By default, looptime checks 42 times for events from outside before each step of its clock, which took nine tenths of
the time of such tests. Tests with sockets or child processes need these checks, and use the mark `looptime` itself.
"""


class HandClock:
    """Clock that shows `now`, in seconds, which a test sets."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
