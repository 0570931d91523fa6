"""Freed memory is returned to the operating system."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import sys
from pathlib import Path

import pytest

from fairlead_operator.heap import keep_trimmed

BLOCK = 3000
"""Block size in bytes: too small for a mapping of its own, too large for Python's pools."""


def resident() -> int:
    """Resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.looptime
@pytest.mark.skipif(sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="not on glibc")
async def test_free_heap_between_living_objects_is_given_back() -> None:
    task = asyncio.create_task(keep_trimmed())
    await asyncio.sleep(1)
    blocks = [bytes(BLOCK) for _ in range(20_000)]
    alive = blocks[::50]
    del blocks
    before = resident()
    await asyncio.sleep(60)
    assert before - resident() > 0.5 * 20_000 * BLOCK
    assert len(alive) == 400
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
