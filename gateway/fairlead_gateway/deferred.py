"""Parts of a gateway that are made with the first request that needs them: they take memory and time that a gateway
which nobody asks for them is spared.

The module of such a part is imported by what makes it (`served_rest`, `served_console`, `endpoint.fallback`) and by
nothing else here. What its settings can be wrong about is found by the caller, at the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from fairlead_gateway.heap import Heap

Part = TypeVar("Part")


class Deferred(Generic[Part]):
    """One part, made once, in a thread so that calls in flight do not wait for it. Belongs to one loop."""

    def __init__(self, make: Callable[[], Part], heap: Heap) -> None:
        self._make = make
        self._heap = heap
        self._making = asyncio.Lock()
        self.made: Part | None = None
        """The part, once it is there."""

    async def get(self) -> Part:
        """The part, made where it is missing. Raises what making it raises, and tries again the next time."""
        async with self._making:
            if self.made is None:
                with self._heap.building():
                    self.made = await asyncio.to_thread(self._make)
            return self.made
