"""Bounded waits for events."""

from __future__ import annotations

import asyncio


async def wait_until_set(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait for an event, `seconds` at the most, None for ever. False where the time came first."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
