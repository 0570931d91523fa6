"""Waiting for events with a timeout."""

from __future__ import annotations

import asyncio


async def wait_until_set(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait for an event for at most `seconds`, without a limit if None. False after a timeout."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
