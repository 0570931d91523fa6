"""Client of an OpenAI-compatible images endpoint (`POST /v1/images/generations`)."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
from typing import Any, Final

import httpx2

from fairlead_servers.fetching import Fetcher, FetchFailed, host_of

MOST_BYTES: Final = 40_000_000
"""Largest answer; pictures are in base64."""
_KINDS: Final = (
    (rb"\x89PNG\r\n\x1a\n", "image/png"),
    (rb"\xff\xd8\xff", "image/jpeg"),
    (rb"RIFF.{4}WEBP", "image/webp"),
)
"""Patterns of how files begin; sounds and films begin with RIFF as well."""


class EndpointFailed(Exception):
    """The endpoint made no picture; the message is a sentence without its full stop."""


class ImagesEndpoint:
    """One endpoint with its key, model and size."""

    def __init__(self, url: str, key: str | None, model: str | None, size: str, timeout_s: float) -> None:
        """`url`: base, such as https://api.example.com/v1. Raises ValueError for what is none."""
        host = host_of(url)
        if host is None:
            raise ValueError("it is not the address of an API")
        self._url = f"{url.rstrip('/')}/images/generations"
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._fixed = {"n": 1, "size": size} | ({"model": model} if model else {})
        self._timeout_s = timeout_s
        # An answer may name an address in place of the picture: of the endpoint itself, or of the web.
        self._fetcher = Fetcher(allowed=[host], most_bytes=MOST_BYTES, timeout_s=timeout_s)

    async def picture(self, prompt: str) -> tuple[bytes, str]:
        """Bytes of a picture and their media type. Raises EndpointFailed."""
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                httpx2.AsyncClient(timeout=None, follow_redirects=False) as client,
            ):
                return _of_known_kind(await self._picture(await self._answer(client, prompt)))
        except TimeoutError as error:
            raise EndpointFailed(f"the images endpoint did not answer within {self._timeout_s:g} s") from error
        except FetchFailed as error:
            raise EndpointFailed(f"the picture that the images endpoint names cannot be fetched: {error}") from error
        except httpx2.HTTPError as error:
            raise EndpointFailed(
                f"the images endpoint cannot be reached: {str(error) or type(error).__name__}"
            ) from error

    async def _answer(self, client: httpx2.AsyncClient, prompt: str) -> Any:
        body = self._fixed | {"prompt": prompt}
        if "gpt-image" not in str(body.get("model")):  # these always answer in base64, and refuse the member
            body["response_format"] = "b64_json"
        async with client.stream("POST", self._url, json=body, headers=self._headers) as response:
            received = bytearray()
            async for part in response.aiter_bytes():
                received += part
                if len(received) > MOST_BYTES:
                    raise EndpointFailed(f"the images endpoint sent more than {MOST_BYTES:,} bytes")
        try:
            answer = json.loads(received)
        except (ValueError, RecursionError) as error:
            raise EndpointFailed(f"the images endpoint answered {response.status_code} and no JSON") from error
        if response.status_code != 200:
            told = answer.get("error") if isinstance(answer, dict) else None
            why = str(told.get("message", "") if isinstance(told, dict) else told or "")[:300]
            raise EndpointFailed(f"the images endpoint answered {response.status_code}" + (f": {why}" if why else ""))
        return answer

    async def _picture(self, answer: Any) -> bytes:
        """Bytes of the first picture of an answer. Raises EndpointFailed and FetchFailed."""
        try:
            first = answer["data"][0]
            if not first.get("b64_json") and isinstance(first.get("url"), str):
                page = await self._fetcher.fetch(first["url"], accept="image/*")
                if page.status != 200 or page.cut:
                    why = f"more than {MOST_BYTES:,} bytes" if page.cut else f"status {page.status}"
                    raise EndpointFailed(f"the picture that the images endpoint names cannot be fetched: {why}")
                return page.body
            return base64.b64decode(first["b64_json"], validate=True)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError, binascii.Error) as error:
            raise EndpointFailed("the images endpoint's answer holds no picture (data[0].b64_json or url)") from error


def _of_known_kind(picture: bytes) -> tuple[bytes, str]:
    """Picture and its media type. Raises EndpointFailed."""
    for begin, kind in _KINDS:
        if re.match(begin, picture, re.DOTALL):
            return picture, kind
    raise EndpointFailed("the images endpoint's answer is neither PNG, JPEG nor WebP")
