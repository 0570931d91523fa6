"""Requests to providers of models, over HTTP and WebSocket: answers come as they are, bounded in time and size.

Nothing is tried again here: the SDKs of clients do so, and a route goes on to its next model.
"""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final, TypeAlias

import aiohttp
import msgspec

from fairlead_formats.wire.protocol import EVENT_STREAM, JSON
from fairlead_models.providers import Provider

MAX_DIGITS: Final = 10
CLOSE_SECONDS: Final = 2.0
"""Seconds in which a provider may answer the close of a WebSocket."""
MAX_ANSWER: Final = 32 << 20
"""Bytes of an answer that comes whole."""

MAX_REFUSAL: Final = 256 << 10
"""Bytes of a refusal."""

_OK: Final = 200
_WHOLE: Final = 1 << 20
"""Bytes of a request that is written without a pause."""

HIDDEN: Final = b"[key]"
"""Stands in place of a key in a refusal."""


class ProviderUnavailable(Exception):
    """There is no answer, or it broke off. The message says why, without address or key."""


ProviderSocket: TypeAlias = "aiohttp.ClientWebSocketResponse[bool]"


class ProviderRefused(Exception):
    """A provider refuses a WebSocket."""

    def __init__(self, status: int, retry_after: float | None) -> None:
        super().__init__(f"the provider refused the session with status {status}")
        self.status = status
        self.retry_after = retry_after
        """Seconds after which the provider may accept a session; None where it does not say."""


class ProviderRequest(msgspec.Struct, frozen=True):
    """One HTTP request to a provider's API."""

    path: str
    """Below the base of the API."""
    body: bytes
    headers: Mapping[str, str] = {}
    """Headers of the client's that the provider gets."""
    answer_headers: Sequence[str] = ()
    """Headers of the answer that the client gets; one that ends with `-` is the beginning of several."""
    method: str = "POST"
    content_type: str = JSON


class _SilenceTimer:
    """Fails the read of a body that is silent for too long. One timer for the whole body: aiohttp sets its own again
    for each piece, which takes a tenth of the time of a piece.
    """

    def __init__(self, content: aiohttp.StreamReader, seconds: float) -> None:
        self._content = content
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._waiting = True
        self._since = self._loop.time()
        self._timer = self._loop.call_later(seconds, self._look)

    def waits(self, *, waiting: bool) -> None:
        """Record whether the reader of the body waits from now on."""
        self._waiting = waiting
        self._since = self._loop.time()

    def cancel(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        left = self._since + self._seconds - self._loop.time() if self._waiting else self._seconds
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        else:
            self._content.set_exception(TimeoutError())


class ProviderAnswer:
    """The answer to one request. Close it."""

    def __init__(
        self, answer: aiohttp.ClientResponse, passed_on: Sequence[str], idle_seconds: float, key: str = ""
    ) -> None:
        """`passed_on`: `ProviderRequest.answer_headers`. Values that hold the `key`, or that are not printable ASCII,
        are not passed on.
        """
        self._answer = answer
        self._key = key
        self._idle_seconds = idle_seconds
        self._whole: bytes | None = None
        self.status = answer.status
        self.retry_after = seconds_until(answer.headers)
        self.streams = answer.content_type == EVENT_STREAM
        self.headers: Mapping[str, str] = {
            name.lower(): value
            for name, value in answer.headers.items()
            if _among(name.lower(), passed_on) and _is_plain(value) and not (key and key in value)
        }

    async def whole(self) -> bytes:
        """The body, read once. That of a refusal is without the key, and empty where it is longer than MAX_REFUSAL.
        Raises ProviderUnavailable.
        """
        if self._whole is not None:
            return self._whole
        received = bytearray()
        async for piece in self.pieces():
            received += piece
            if self.status != _OK and len(received) > MAX_REFUSAL:
                received.clear()
                self.close()
                break
            if len(received) > MAX_ANSWER:
                raise ProviderUnavailable(f"the provider answered more than {MAX_ANSWER} bytes")
        if self._key and self.status != _OK:
            received = received.replace(self._key.encode(), HIDDEN)
        self._whole = bytes(received)
        return self._whole

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises ProviderUnavailable where it breaks off."""
        silence = _SilenceTimer(self._answer.content, self._idle_seconds)
        try:
            async for piece in self._answer.content.iter_any():
                silence.waits(waiting=False)
                yield piece
                silence.waits(waiting=True)
        except TimeoutError as error:
            raise ProviderUnavailable("the provider went silent in its answer") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ProviderUnavailable(f"the provider's answer broke off: {type(error).__name__}") from error
        finally:
            silence.cancel()

    def close(self) -> None:
        """Close the connection, unless the body was read to its end."""
        self._answer.close()


class ProviderClient:
    """Sends requests to all providers. `aclose` it."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    def of_caller(self, key: str) -> KeyedClient:
        """The client for requests of a caller with its own key; empty for a caller without one."""
        return KeyedClient(self, key)

    async def send(self, provider: Provider, request: ProviderRequest, key: str = "") -> ProviderAnswer:
        """The answer to a request, whatever its status. `key` goes out in place of the provider's. Raises
        ProviderUnavailable.
        """
        key = key or await key_of(provider)
        headers = provider.request_headers(key, request.headers)
        headers |= {"content-type": request.content_type, "accept-encoding": "identity"}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=provider.connect_seconds)
        async with _answering(provider):
            answer = await self._open_session().request(
                request.method,
                provider.url(request.path),
                data=_in_pieces(request.body),
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
            )
            try:
                return ProviderAnswer(answer, request.answer_headers, provider.idle_seconds, key)
            except BaseException:
                answer.close()
                raise

    async def connect(
        self, provider: Provider, path: str, more: Mapping[str, str], key: str = "", *, max_message: int, ping: float
    ) -> ProviderSocket:
        """A WebSocket to a path of the API, whose messages may have so many bytes and come as bytes. `more` are headers
        of the client's, `key` goes out in place of the provider's. After `ping` seconds without a message the provider
        is sent a ping; one that answers nothing for half of that is given up: an error with a ServerTimeoutError comes.
        Raises ProviderUnavailable, ProviderRefused.
        """
        headers = provider.request_headers(key or await key_of(provider), more)
        timeout = aiohttp.ClientWSTimeout(ws_close=CLOSE_SECONDS)
        async with _answering(provider):
            try:
                return await self._open_session().ws_connect(
                    provider.url(path),
                    headers=headers,
                    timeout=timeout,
                    compress=0,
                    max_msg_size=max_message,
                    decode_text=False,
                    heartbeat=ping,
                )
            except aiohttp.WSServerHandshakeError as error:
                raise ProviderRefused(error.status, seconds_until(error.headers or {})) from error

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._session

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()


class KeyedClient:
    """Sends the requests of one caller, with its own key where it has one."""

    def __init__(self, client: ProviderClient, key: str) -> None:
        self._client = client
        self._key = key
        self.keyed = bool(key)
        """Whether the caller has a key of its own."""

    async def send(self, provider: Provider, request: ProviderRequest) -> ProviderAnswer:
        """The answer to a request, as `ProviderClient.send` gives it. Raises ProviderUnavailable."""
        return await self._client.send(provider, request, self._key)


def _in_pieces(body: bytes) -> bytes | io.BytesIO:
    """A body for aiohttp, which would write bytes of more than 1 MiB without a pause, and warns of them."""
    return body if len(body) <= _WHOLE else io.BytesIO(body)


async def key_of(provider: Provider) -> str:
    """The key as it is now; empty without one. Raises ProviderUnavailable."""
    if provider.key_env is not None:
        key = os.environ.get(provider.key_env, "")
        if not key:
            raise ProviderUnavailable(f"the environment variable {provider.key_env} with its key is not set")
        return key
    if provider.key_file is None:
        return ""
    try:
        key = (await asyncio.to_thread(Path(provider.key_file).read_text, "ascii")).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ProviderUnavailable("the file with the provider's key cannot be read") from error
    if not key:
        raise ProviderUnavailable("the file with the provider's key is empty")
    return key


def transport_of(socket: ProviderSocket) -> asyncio.Transport | None:
    """Transport of a WebSocket; None where it is gone."""
    connection = socket._response.connection  # noqa: SLF001 - aiohttp shows it nowhere else
    return None if connection is None else connection.transport


@asynccontextmanager
async def _answering(provider: Provider) -> AsyncIterator[None]:
    """Bounds the time until a provider answers. Raises ProviderUnavailable where it does not."""
    try:
        async with asyncio.timeout(provider.connect_seconds + provider.idle_seconds):
            yield
    except TimeoutError as error:
        raise ProviderUnavailable("the provider did not answer in time") from error
    except aiohttp.ClientConnectorError as error:
        number = error.os_error.errno  # its text names the address
        why = os.strerror(number) if number else type(error.os_error).__name__
        raise ProviderUnavailable(f"the provider cannot be reached: {why}") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise ProviderUnavailable(f"the provider broke off: {type(error).__name__}") from error


def seconds_until(headers: Mapping[str, str]) -> float | None:
    """Seconds of `retry-after-ms` or `Retry-After` (RFC 9110 section 10.2.3: seconds, or a date); None without one that
    can be read.
    """
    millis, after = headers.get("retry-after-ms", ""), headers.get("retry-after", "")
    if millis.isdecimal() and len(millis) < MAX_DIGITS:
        return int(millis) / 1000
    if after.isdecimal() and len(after) < MAX_DIGITS:
        return float(after)
    try:
        return max((parsedate_to_datetime(after) - datetime.now(UTC)).total_seconds(), 0.0)
    except (TypeError, ValueError, OverflowError):  # also of a date without a zone, or of no calendar
        return None


def _is_plain(value: str) -> bool:
    return value.isascii() and value.isprintable()


def _among(name: str, wanted: Sequence[str]) -> bool:
    return any(name.startswith(each) if each.endswith("-") else name == each for each in wanted)
