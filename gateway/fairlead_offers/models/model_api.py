"""Requests to OpenAI-compatible APIs of models, with limits of time and size, retries, and egress rules.

This module is imported only if an API is configured, because the HTTP client takes a third of a second to load.
"""

from __future__ import annotations

import asyncio
import random
import socket
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult

from fairlead_mcp import bounded_reading
from fairlead_mcp.addresses import authority
from fairlead_mcp.bounded_reading import UnreadableAnswer
from fairlead_mcp.egress import Egress
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, HttpRefused, McpError, ProtocolError, Timeout, TooLarge
from fairlead_mcp.http.connect_errors import connect_error
from fairlead_mcp.http.dial import Resolve, resolve_by_dns
from fairlead_mcp.read_bounds import MAX_VALUES
from fairlead_mcp.retries import next_delay

RETRIES: Final = 2
REFUSAL_BYTES: Final = 256 << 10
"""Maximum number of bytes of a refusal. The body of a longer refusal is ignored."""
REASON_CHARACTERS: Final = 200
"""Maximum number of characters of an API's reason that a message quotes."""
_READ_CHARACTERS: Final = 1_000
"""Number of characters of a reason that are read, before white space is removed and the reason is cut."""
_NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=None)
"""No timeout of aiohttp: `ModelApi` limits the time of a request itself."""
_encode: Final = msgspec.json.Encoder().encode


class ModelEndpoint(Protocol):
    """Configured API of a model: its base URL, its key, and the egress rules that its address must satisfy
    (`fairlead_mcp.egress`).
    """

    @property
    def url(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def allowed_urls(self) -> tuple[str, ...]: ...

    @property
    def denied_networks(self) -> tuple[str, ...]: ...

    @property
    def confined(self) -> bool | None: ...

    @property
    def namespace(self) -> str: ...


def guarded_api(endpoint: ModelEndpoint, *, seconds: float, max_bytes: int) -> ModelApi:
    """Make the client of an API, which connects only to addresses that the egress rules allow."""
    egress = Egress.of(endpoint.allowed_urls, endpoint.denied_networks, confined=endpoint.confined)
    resolve = egress.guard(resolve_by_dns, endpoint.namespace)
    return ModelApi(endpoint.url, endpoint.key, resolve, seconds=seconds, max_bytes=max_bytes)


class ModelApi:
    """Client of one API, by base URL such as `http://vllm.models:8000/v1`. The client opens a connection for each
    request, and can therefore be used in any event loop.
    """

    def __init__(self, url: str, key: str, resolve: Resolve, *, seconds: float, max_bytes: int) -> None:
        """`resolve`: returns only addresses that the egress rules allow. `seconds`: limit for one request including the
        lookup of the host name and all retries. `max_bytes`: limit for the answer.
        """
        self._url = url.rstrip("/")
        self._headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        self._resolve = resolve
        self._seconds = seconds
        self._max_bytes = max_bytes

    async def post(self, path: str, body: Any) -> bytes:
        """Send a request, which may be repeated, and return the answer. Raises McpError."""
        data = _encode(body)
        end = asyncio.get_running_loop().time() + self._seconds
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._post_once(path, data, end)
            except McpError as error:
                seconds_left = end - asyncio.get_running_loop().time()
                pause = next_delay(
                    error, attempt=attempt, retries=RETRIES, idempotent=True, left=seconds_left, random=random.random()
                )
                if pause is None:
                    raise
                await asyncio.sleep(pause)

    async def _post_once(self, path: str, data: bytes, end: float) -> bytes:
        """Send a request once, until the time `end` of the event loop. Raises McpError."""
        await self._check_address(end)
        connector = aiohttp.TCPConnector(resolver=_GuardedResolver(self._resolve), use_dns_cache=False)
        try:
            async with (
                asyncio.timeout_at(end),
                aiohttp.ClientSession(connector=connector, timeout=_NO_TIMEOUT) as session,
                session.post(f"{self._url}{path}", data=data, headers=self._headers, allow_redirects=False) as answer,
            ):
                answer_body = bytearray()
                async for piece in answer.content.iter_any():
                    answer_body += piece
                    if answer.status != 200 and len(answer_body) > REFUSAL_BYTES:
                        answer_body.clear()
                        break
                    if len(answer_body) > self._max_bytes:
                        raise TooLarge(f"the answer of the model API has more than {self._max_bytes} bytes")
        except TimeoutError as error:
            raise Timeout(f"the model API did not answer within {self._seconds:g} s", sent=True) from error
        except aiohttp.ClientConnectorError as error:
            peer = f"the model API at {authority(error.host, error.port or 0)}"
            raise connect_error(error.os_error, peer, tls=self._url.lower().startswith("https:")) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ConnectionLost(f"the connection to the model API broke: {type(error).__name__}", sent=True) from error
        if answer.status != 200:
            reason, retry_after = await _reason(bytes(answer_body)), answer.headers.get("Retry-After")
            message = f"the model API answered with status {answer.status}: {reason}"
            raise HttpRefused(message, status=answer.status, retry_after=retry_after)
        return bytes(answer_body)

    async def _check_address(self, end: float) -> None:
        """Check the host of the URL by the egress rules, until the time `end`. The resolver alone is not enough,
        because the HTTP client does not call it for literal IP addresses. Raises ConnectFailed.
        """
        parts = urlsplit(self._url)
        host_text = f"the host name {parts.hostname} of the model API"
        try:
            async with asyncio.timeout_at(end):
                await self._resolve(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        except TimeoutError as error:
            message = f"{host_text} was not resolved within {self._seconds:g} s"
            raise ConnectFailed(message, reason="UnknownHost") from error
        except (OSError, UnicodeError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or error
            raise ConnectFailed(f"{host_text} cannot be resolved ({reason})", reason="UnknownHost") from error


class _GuardedResolver(AbstractResolver):
    """Resolver for the HTTP client that applies the gateway's egress rules."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=number,
                proto=0,
                flags=socket.AI_NUMERICHOST,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
            )
            for address, number in await self._resolve(host, port)
        ]

    async def close(self) -> None:
        """Do nothing, because nothing is open."""


async def _reason(answer: bytes) -> str:
    """Reason that an API states for a refusal, in one line."""
    try:
        body = await bounded_reading.decode_bounded(answer, Any)
        error = body.get("error", body) if isinstance(body, dict) else body
        reason = error.get("message", "") if isinstance(error, dict) else error
    except UnreadableAnswer:
        reason = answer[:REASON_CHARACTERS].decode("utf-8", "replace")
    words = str("" if reason is None else reason)[:_READ_CHARACTERS].split()
    return " ".join(words)[:REASON_CHARACTERS] or "no reason stated"


async def decode_answer(answer: bytes, kind: Any, *, max_values: int = MAX_VALUES) -> Any:
    """Decode an answer as `kind`, with at most `max_values` JSON values. Raises ProtocolError."""
    try:
        return await bounded_reading.decode_bounded(answer, kind, max_values=max_values)
    except UnreadableAnswer as error:
        raise ProtocolError(f"the answer of the model API cannot be read: {error}") from error
