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
"""Maximum number of bytes of a response, which has the picture in base64."""
_KINDS: Final = (
    (rb"\x89PNG\r\n\x1a\n", "image/png"),
    (rb"\xff\xd8\xff", "image/jpeg"),
    (rb"RIFF.{4}WEBP", "image/webp"),
)
"""Patterns of the beginnings of image files. `RIFF` alone would also match audio and video."""


class EndpointFailed(Exception):
    """Failure of the endpoint to return a picture. The message is a sentence without its full stop."""


class ImagesEndpoint:
    """One endpoint with its key, model and size."""

    def __init__(self, url: str, key: str | None, model: str | None, size: str, timeout_s: float) -> None:
        """`url` is the base URL, such as https://api.example.com/v1. Raises ValueError if it is not an http or https
        URL.
        """
        host = host_of(url)
        if host is None:
            raise ValueError("not the URL of an API")
        self._url = f"{url.rstrip('/')}/images/generations"
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._body_members = {"n": 1, "size": size} | ({"model": model} if model else {})
        self._timeout_s = timeout_s
        # instead of the picture, a response may have a URL, at the endpoint's host or in the public web
        self._fetcher = Fetcher(allowed=[host], most_bytes=MOST_BYTES, timeout_s=timeout_s)

    async def picture(self, prompt: str) -> tuple[bytes, str]:
        """Bytes of a picture, and their media type. Raises EndpointFailed."""
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                httpx2.AsyncClient(timeout=None, follow_redirects=False) as client,
            ):
                return _with_media_type(await self._picture(await self._answer(client, prompt)))
        except TimeoutError as error:
            raise EndpointFailed(f"the images endpoint did not respond within {self._timeout_s:g} s") from error
        except FetchFailed as error:
            raise EndpointFailed(f"the URL from the images endpoint cannot be fetched: {error}") from error
        except httpx2.HTTPError as error:
            raise EndpointFailed(
                f"the images endpoint cannot be reached: {str(error) or type(error).__name__}"
            ) from error

    async def _answer(self, client: httpx2.AsyncClient, prompt: str) -> Any:
        body = self._body_members | {"prompt": prompt}
        if "gpt-image" not in str(
            body.get("model")
        ):  # these models always return base64, and reject the member `response_format`
            body["response_format"] = "b64_json"
        async with client.stream("POST", self._url, json=body, headers=self._headers) as response:
            data = bytearray()
            async for part in response.aiter_bytes():
                data += part
                if len(data) > MOST_BYTES:
                    raise EndpointFailed(f"the images endpoint sent more than {MOST_BYTES:,} bytes")
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise EndpointFailed(f"the images endpoint returned status {response.status_code} without JSON") from error
        if response.status_code != 200:
            detail = answer.get("error") if isinstance(answer, dict) else None
            reason = str(detail.get("message", "") if isinstance(detail, dict) else detail or "")[:300]
            suffix = f": {reason}" if reason else ""
            raise EndpointFailed(f"the images endpoint returned status {response.status_code}{suffix}")
        return answer

    async def _picture(self, answer: Any) -> bytes:
        """Bytes of the first picture in a response. Raises EndpointFailed and FetchFailed."""
        try:
            item = answer["data"][0]
            if not item.get("b64_json") and isinstance(item.get("url"), str):
                page = await self._fetcher.fetch(item["url"], accept="image/*")
                if page.status != 200 or page.cut:
                    reason = f"more than {MOST_BYTES:,} bytes" if page.cut else f"status {page.status}"
                    raise EndpointFailed(f"the URL from the images endpoint cannot be fetched: {reason}")
                return page.body
            return base64.b64decode(item["b64_json"], validate=True)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError, binascii.Error) as error:
            raise EndpointFailed("the images endpoint's response has no picture (data[0].b64_json or url)") from error


def _with_media_type(picture: bytes) -> tuple[bytes, str]:
    """A picture and its media type. Raises EndpointFailed."""
    for pattern, media_type in _KINDS:
        if re.match(pattern, picture, re.DOTALL):
            return picture, media_type
    raise EndpointFailed("the images endpoint's picture is neither PNG, JPEG nor WebP")
