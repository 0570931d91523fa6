"""Work for a client, given up when the client is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from starlette.requests import Request

Result = TypeVar("Result")


async def while_connected(request: Request, work: Awaitable[Result]) -> Result | None:
    """Do the work; give it up when the client is gone, so that its calls are cancelled upstream: None."""
    batch = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({batch, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not batch.done():
            batch.cancel()
            await asyncio.wait({batch})
            return None
        return await batch
    finally:
        gone.cancel()
        batch.cancel()
