"""Creates parts of a gateway at the first request that needs them, which saves memory and start-up time.

The module of such a part (`served_rest`, `served_console`, `endpoint.fallback`) is imported only when the part is
created. So the settings of a part have to be validated earlier, at the start of the gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from fairlead_gateway.heap import Heap

Part = TypeVar("Part")


class Deferred(Generic[Part]):
    """A part that is created once, in a thread so that calls in flight are not delayed. Belongs to one event loop."""

    def __init__(self, make: Callable[[], Part], heap: Heap) -> None:
        self._make = make
        self._heap = heap
        self._lock = asyncio.Lock()
        self.part: Part | None = None
        """The part; None before it is created."""

    async def get(self) -> Part:
        """Return the part, and create it if needed. Errors of its creation are raised, and the next call
        tries again.
        """
        async with self._lock:
            if self.part is None:
                with self._heap.pause_collection():
                    self.part = await asyncio.to_thread(self._make)
            return self.part
