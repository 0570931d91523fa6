"""Google's client of Gemini's API in front of an address: over httpx2, and over aiohttp, which it prefers where it is
asynchronous.

said = await over_httpx(url, contents="Hi")
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

genai = pytest.importorskip("google.genai", reason="Google's client is not installed (fairlead[dev])")
UNCLOSED = "ignore:Inheritance class AiohttpClientSession:DeprecationWarning"
"""Warning of aiohttp about a class of the client's own."""


@dataclass
class Told:
    """Chunks as the client gives them, and the error that it raises behind them."""

    chunks: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""

    def take(self, response: Any) -> None:
        self.chunks.append(response.model_dump(mode="json", exclude_none=True, exclude={"sdk_http_response"}))

    def fail(self, error: Exception) -> None:
        code, message = getattr(error, "code", None), getattr(error, "message", "")
        self.error = f"{type(error).__name__} {code} {message}"

    @property
    def parts(self) -> list[dict[str, Any]]:
        """Parts of the first candidates."""
        candidates = [chunk["candidates"][0] for chunk in self.chunks if chunk.get("candidates")]
        return [part for each in candidates for part in (each.get("content") or {}).get("parts") or []]

    @property
    def joined(self) -> dict[str, Any]:
        """The message that its chunks tell: texts put together, whatever else there is in its order."""
        texts = dict.fromkeys((False, True), "")
        for part in self.parts:
            texts[bool(part.get("thought"))] += part.get("text", "")
        others = [part for part in self.parts if "text" not in part]
        last = self.chunks[-1]
        ends = [chunk["candidates"][0].get("finish_reason") for chunk in self.chunks if chunk.get("candidates")]
        return {
            "text": texts[False], "thoughts": texts[True], "others": others, "usage": last.get("usage_metadata"),
            "id": {chunk.get("response_id") for chunk in self.chunks}, "ends": [end for end in ends if end],
        }  # fmt: skip


def _client(url: str) -> Any:
    return genai.Client(api_key="none", http_options=genai.types.HttpOptions(base_url=url))


def _asked(members: dict[str, Any]) -> dict[str, Any]:
    return {"model": "scripted", "contents": "Hi", **members}


async def over_httpx(url: str, *, stream: bool = True, **members: Any) -> Told:
    """One request of the client that blocks."""
    return await asyncio.to_thread(_blocking, url, stream, members)


def _blocking(url: str, stream: bool, members: dict[str, Any]) -> Told:
    told = Told()
    with _client(url) as client:
        try:
            if not stream:
                told.take(client.models.generate_content(**_asked(members)))
                return told
            for chunk in client.models.generate_content_stream(**_asked(members)):
                told.take(chunk)
        except Exception as error:  # noqa: BLE001 # whatever it raises is compared
            told.fail(error)
    return told


async def over_aiohttp(url: str, *, stream: bool = True, **members: Any) -> Told:
    """One request of the asynchronous client."""
    told = Told()
    async with _client(url).aio as client:
        try:
            if not stream:
                told.take(await client.models.generate_content(**_asked(members)))
                return told
            async for chunk in await client.models.generate_content_stream(**_asked(members)):
                told.take(chunk)
        except Exception as error:  # noqa: BLE001 # whatever it raises is compared
            told.fail(error)
    return told
