"""Limits the number of concurrent requests to servers."""

from __future__ import annotations

import asyncio
from typing import Final

MAX_HOLD_SECONDS: Final = 5.0
"""Maximum seconds for which one request holds a slot."""


class Slot:
    """Context manager that holds one slot of a semaphore during its block, but for at most `MAX_HOLD_SECONDS`, so that
    hanging requests do not occupy all slots.
    """

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots = slots
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        await self._slots.acquire()
        self._timer = asyncio.get_running_loop().call_later(MAX_HOLD_SECONDS, self._release)

    async def __aexit__(self, *_: object) -> None:
        self._release()

    def _release(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            self._slots.release()
