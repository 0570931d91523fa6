"""Memory that is free in the C heap goes back to the system.

Answers of the API server and of MCP servers are large, short-lived and many at once. glibc keeps the pages that they
leave behind, a tenth of the process after a thousand servers, as something small lives at the end of each.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from typing import Final

EVERY_SECONDS: Final = 5.0
"""A trim holds the loop for about 3 ms."""


def _trimming() -> Callable[[int], object] | None:
    trim: Callable[[int], object] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim


async def keep_trimmed(every: float = EVERY_SECONDS) -> None:
    """Trim the heap every so many seconds; at once over where the C library cannot (musl, macOS)."""
    trim = _trimming()
    while trim is not None:
        await asyncio.sleep(every)
        trim(0)
