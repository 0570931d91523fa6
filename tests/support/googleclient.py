"""Google's client of Gemini's API, in front of a gateway.

async with google(url, "KEY") as client:
    await client.models.get(model="m")
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx2
from google import genai


@contextlib.asynccontextmanager
async def google(url: str, key: str) -> AsyncIterator[Any]:
    """The asynchronous client. It gets a separate HTTP client, because with aiohttp each session logs a warning."""
    async with httpx2.AsyncClient() as http:
        options = genai.types.HttpOptions(base_url=url, httpx_async_client=http)
        async with genai.Client(api_key=key, http_options=options).aio as client:
            yield client
