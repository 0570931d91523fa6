"""Returns free memory of the C heap to the system.

Answers of the API server and of MCP servers are large, short-lived and numerous. By itself, glibc returns only the free
end of a heap, and small live objects remain there, so it keeps the pages that freed answers occupied. With a thousand
servers, these pages are a tenth of the process's memory.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from typing import Final

INTERVAL_SECONDS: Final = 5.0
"""Seconds between two trims; each blocks the event loop for about 3 ms."""


def _malloc_trim() -> Callable[[int], object] | None:
    """The function `malloc_trim` of the C library; None if the library lacks it."""
    trim: Callable[[int], object] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim


async def keep_trimmed(interval_s: float = INTERVAL_SECONDS) -> None:
    """Trim the heap periodically; returns at once if the C library has no `malloc_trim` (musl, macOS)."""
    trim = _malloc_trim()
    while trim is not None:
        await asyncio.sleep(interval_s)
        trim(0)
