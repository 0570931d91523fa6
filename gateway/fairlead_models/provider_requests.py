"""Requests to providers of models over HTTP and WebSocket, with limits for time and size of answers.

This module does not retry: clients' SDKs do, and a route continues with its next model.

Connections read small pieces, so that the gateway buffers little of an answer for a slow client. By default, a
transport of asyncio passes up to 256 KiB at once to an `asyncio.Protocol`, and aiohttp pauses reading only afterwards,
if more than twice `READ_BUFFER` is buffered. With small pieces, reading pauses as soon as the client does not read, and
TCP flow control makes the provider wait.
"""

from __future__ import annotations

import asyncio
import io
import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

import aiohttp
import msgspec
from yarl import URL

from fairlead_formats.pairs.provider_apis import APIS
from fairlead_formats.wire.protocol import EVENT_STREAM, JSON
from fairlead_mcp.addresses import authority
from fairlead_mcp.http.connect_errors import connect_error
from fairlead_models.aws_signatures import RequestSigner, SigningFailed, SigningScope
from fairlead_models.providers import Provider

if TYPE_CHECKING:
    from aiohttp.client import ClientTimeout
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

MAX_PIECE: Final = 2 << 10
"""Maximum number of bytes of one read."""
READ_BUFFER: Final = 512
"""Number of buffered bytes of an answer below which aiohttp resumes reading. aiohttp pauses above twice this number."""
MAX_RETRY_AFTER_DIGITS: Final = 9
"""Maximum number of digits of a number in `retry-after-ms` or `Retry-After`; a longer number is ignored."""
CLOSE_SECONDS: Final = 2.0
"""Seconds that a provider has to answer the close of a WebSocket."""
MAX_ANSWER: Final = 32 << 20
"""Maximum number of bytes of an answer that is read as a whole, not as a stream."""
MAX_REFUSAL: Final = 256 << 10
"""Maximum number of bytes of a provider's error response. The body of a longer response is ignored."""
_OK: Final = 200
_NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=None)
"""No timeout of aiohttp: `_BeginLimit` and `_SilenceTimer` limit the time instead."""
_MAX_BYTES_BODY: Final = 1 << 20
"""Largest request body in bytes that is passed to aiohttp as `bytes`. aiohttp writes `bytes` in one piece without a
pause, so a larger body is passed as a stream.
"""
_CONNECT_ADVICE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "UnknownHost": "correct the provider's baseUrl",
        "ConnectionRefused": "check that it runs, and its baseUrl",
        "TLSFailed": "have its certificate corrected, or set SSL_CERT_FILE of the gateway to a file with its authority",
        "Unreachable": "check its baseUrl, and the network and its policies",
    }
)
"""Advice for a provider to which no connection can be opened, by the reason of `connect_error`."""
KEY_PLACEHOLDER: Final = b"[key]"
"""Replacement for the API key in a provider's error response."""
ProviderSocket: TypeAlias = "aiohttp.ClientWebSocketResponse[bool]"

log = logging.getLogger(__name__)


class PieceReader(asyncio.BufferedProtocol):
    """Passes the data that arrive on a connection to the protocol of aiohttp, in pieces of at most the size of
    `buffer`.

    All connections can share one buffer, because each piece is passed on before the next piece is read.
    """

    def __init__(self, protocol: asyncio.Protocol, buffer: bytearray) -> None:
        self._protocol = protocol
        self._buffer = buffer

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._protocol.data_received(bytes(memoryview(self._buffer)[:nbytes]))

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()


class PieceConnector(aiohttp.TCPConnector):
    """Connector of aiohttp whose connections are read by a `PieceReader`."""

    def __init__(self, *, keepalive_timeout: float) -> None:
        """`keepalive_timeout`: seconds that an idle connection stays open."""
        super().__init__(limit=0, keepalive_timeout=keepalive_timeout)
        self._pieces = bytearray(MAX_PIECE)

    async def connect(self, req: ClientRequest, traces: list[Trace], timeout: ClientTimeout) -> Connection:
        connection = await super().connect(req, traces, timeout)
        transport, protocol = connection.transport, connection.protocol
        if transport is not None and protocol is not None and transport.get_protocol() is protocol:
            transport.set_protocol(PieceReader(protocol, self._pieces))
        return connection


class ProviderUnavailable(Exception):
    """The provider did not answer, or its answer ended early. The message has the reason, without address or key."""


class ProviderRefused(Exception):
    """The provider answered the opening of a WebSocket with an error status."""

    def __init__(self, status: int, retry_after: float | None) -> None:
        super().__init__(f"the provider refused the session with status {status}")
        self.status = status
        self.retry_after = retry_after
        """Seconds after which the provider may accept a session; None if the provider stated no time."""


class ProviderRequest(msgspec.Struct, frozen=True):
    """HTTP request to a provider's API."""

    path: str
    """Path below the base URL of the API."""
    body: bytes
    headers: Mapping[str, str] = {}
    """Headers of the client that are forwarded to the provider."""
    answer_headers: Sequence[str] = ()
    """Headers of the answer that are forwarded to the client. A name that ends with `-` is a prefix."""
    method: str = "POST"
    content_type: str = JSON


class _SilenceTimer:
    """Timeout for a response body of which no byte arrives for too long. One timer runs for the whole body: aiohttp's
    own timeout would set a timer for each piece, which costs a tenth of the CPU time spent on the piece.
    """

    def __init__(self, content: aiohttp.StreamReader, seconds: float) -> None:
        self._content = content
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._waiting = True
        self._since = self._loop.time()
        self._timer = self._loop.call_later(seconds, self._check)

    def set_waiting(self, *, waiting: bool) -> None:
        """Record whether the reader of the body is now waiting for the next piece."""
        self._waiting = waiting
        self._since = self._loop.time()

    def cancel(self) -> None:
        self._timer.cancel()

    def _check(self) -> None:
        remaining_s = self._since + self._seconds - self._loop.time() if self._waiting else self._seconds
        if remaining_s > 0:
            self._timer = self._loop.call_later(remaining_s, self._check)
        else:
            self._content.set_exception(TimeoutError())


class _BeginLimit:
    """Limit of the time until a provider begins to answer. It limits the time to open a connection, and after that the
    time without progress, which starts again with each part of the request that is sent.
    """

    def __init__(self, provider: Provider) -> None:
        self._connect_seconds = provider.connect_seconds
        self._idle_seconds = provider.idle_seconds
        self._connected = self._ended = False
        self._timeout = asyncio.timeout(provider.connect_seconds)

    def restart(self) -> None:
        """Restart the countdown for progress: the connection was opened, or a part of the request was sent."""
        self._connected = True
        if not self._ended and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._idle_seconds)

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Limit the time of the `async with` block. Raises ProviderUnavailable when the time is over."""
        token = _BEGIN_LIMIT.set(self)
        try:
            async with self._timeout:
                yield
        except TimeoutError as error:
            raise ProviderUnavailable(self._timeout_message()) from error
        finally:
            self._ended = True
            _BEGIN_LIMIT.reset(token)

    def _timeout_message(self) -> str:
        if self._connected:
            return f"the provider did not answer in time: no byte for {self._idle_seconds:g} s (idleSeconds)"
        return f"the provider did not accept a connection in {self._connect_seconds:g} s (connectSeconds)"


_BEGIN_LIMIT: ContextVar[_BeginLimit] = ContextVar("_BEGIN_LIMIT")
"""Limit of the request that the current task sends."""


async def _restart_limit(*_: object) -> None:
    _BEGIN_LIMIT.get().restart()


def _trace_config() -> aiohttp.TraceConfig:
    """Hooks of aiohttp that restart the limit when a request gets its connection and when a part of the request is
    sent.
    """
    config = aiohttp.TraceConfig()
    for signal in (config.on_connection_create_end, config.on_connection_reuseconn, config.on_request_chunk_sent):
        signal.append(_restart_limit)
    return config


class ProviderAnswer:
    """A provider's answer to a request. The owner must call `close` at the end."""

    def __init__(
        self,
        answer: aiohttp.ClientResponse,
        forwarded_headers: Sequence[str],
        idle_seconds: float,
        key: str = "",
        stream_type: str = EVENT_STREAM,
    ) -> None:
        """`forwarded_headers`: `ProviderRequest.answer_headers`. Values that contain the `key`, or that are not
        printable ASCII, are not forwarded. `stream_type`: media type of the provider's streams.
        """
        self._answer = answer
        self._key = key
        self._idle_seconds = idle_seconds
        self._body: bytes | None = None
        self.status = answer.status
        self.retry_after = retry_after_seconds(answer.headers)
        self.content_type = answer.content_type
        """Media type in lower case, without parameters."""
        self.streams = answer.content_type == stream_type
        """Whether the body is a stream, by its media type."""
        self.headers: Mapping[str, str] = {
            name.lower(): value
            for name, value in answer.headers.items()
            if _matches(name.lower(), forwarded_headers) and _is_plain(value) and not (key and key in value)
        }

    async def read_whole(self) -> bytes:
        """Read the whole body; later calls return the same bytes. In the body of an error response, the API key is
        replaced; a body longer than MAX_REFUSAL is returned as empty. Raises ProviderUnavailable.
        """
        if self._body is not None:
            return self._body
        received = bytearray()
        async for piece in self.pieces():
            received += piece
            if self.status != _OK and len(received) > MAX_REFUSAL:
                received.clear()
                self.close()
                break
            if len(received) > MAX_ANSWER:
                raise ProviderUnavailable(f"the provider's answer has more than {MAX_ANSWER} bytes")
        if self._key and self.status != _OK:
            received = received.replace(self._key.encode(), KEY_PLACEHOLDER)
        self._body = bytes(received)
        return self._body

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body in pieces, as it arrives. Raises ProviderUnavailable if the body ends early."""
        silence_timer = _SilenceTimer(self._answer.content, self._idle_seconds)
        try:
            async for piece in self._answer.content.iter_any():
                silence_timer.set_waiting(waiting=False)
                yield piece
                silence_timer.set_waiting(waiting=True)
        except TimeoutError as error:
            silence_text = f"no byte for {self._idle_seconds:g} s (idleSeconds)"
            raise ProviderUnavailable(f"the provider stopped sending during its answer: {silence_text}") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ProviderUnavailable(f"the provider's answer ended early: {type(error).__name__}") from error
        finally:
            silence_timer.cancel()

    def close(self) -> None:
        """Close the connection, unless the body was read to its end."""
        self._answer.close()


class ProviderClient:
    """Sends requests to all providers. The owner must call `aclose` at the end."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._signer = RequestSigner()

    def keyed_client(self, key: str) -> KeyedClient:
        """Make a client for the requests of one caller. `key`: the caller's own API key; empty: none."""
        return KeyedClient(self, key)

    async def send(self, provider: Provider, request: ProviderRequest, key: str = "") -> ProviderAnswer:
        """Send a request, and return the answer with any status. `key`: replaces the provider's configured key. Raises
        ProviderUnavailable.
        """
        key = key or await key_of(provider)
        api, region = APIS[provider.kind], provider.signing_region
        url = URL(provider.url(request.path), encoded=bool(api.signing_service))  # the signature covers this exact URL
        headers = provider.request_headers(key, request.headers)
        headers |= {"content-type": request.content_type, "accept-encoding": "identity"}
        async with _limit_time_to_answer(provider):
            if region and not key:
                signing_scope = SigningScope(region, api.signing_service)
                headers |= await self._signer.sign(signing_scope, request.method, str(url), request.body)
            answer = await self._open_session().request(
                request.method,
                url,
                data=_stream_if_large(request.body),
                headers=headers,
                timeout=_NO_TIMEOUT,
                allow_redirects=False,
            )
            try:
                return ProviderAnswer(answer, request.answer_headers, provider.idle_seconds, key, api.stream_type)
            except BaseException:
                answer.close()
                raise

    async def connect(
        self, provider: Provider, path: str, headers: Mapping[str, str], key: str = "", *, max_message: int, ping: float
    ) -> ProviderSocket:
        """Open a WebSocket to a path of the API. Its messages are received as bytes. Raises ProviderUnavailable and
        ProviderRefused.

        `headers`: headers of the client to forward. `key`: replaces the provider's configured key. `max_message`:
        maximum bytes of a message. `ping`: seconds without a message after which a ping is sent; if the provider does
        not answer for half of this time, the next message is an error with a ServerTimeoutError.
        """
        all_headers = provider.request_headers(key or await key_of(provider), headers)
        timeout = aiohttp.ClientWSTimeout(ws_close=CLOSE_SECONDS)
        async with _limit_time_to_answer(provider):
            try:
                return await self._open_session().ws_connect(
                    provider.url(path),
                    headers=all_headers,
                    timeout=timeout,
                    compress=0,
                    max_msg_size=max_message,
                    decode_text=False,
                    heartbeat=ping,
                )
            except aiohttp.WSServerHandshakeError as error:
                raise ProviderRefused(error.status, retry_after_seconds(error.headers or {})) from error

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=PieceConnector(keepalive_timeout=30),
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=READ_BUFFER,
                timeout=_NO_TIMEOUT,
                trace_configs=[_trace_config()],
            )
        return self._session

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()


class KeyedClient:
    """Sends the requests of one caller, with the caller's own API key if it has one."""

    def __init__(self, client: ProviderClient, key: str) -> None:
        self._client = client
        self._key = key
        self.keyed = bool(key)
        """Whether the caller has its own API key."""

    async def send(self, provider: Provider, request: ProviderRequest) -> ProviderAnswer:
        """Send a request by `ProviderClient.send`. Raises ProviderUnavailable."""
        return await self._client.send(provider, request, self._key)


def _stream_if_large(body: bytes) -> bytes | io.BytesIO:
    """The body, as a stream if it is larger than `_MAX_BYTES_BODY`."""
    return body if len(body) <= _MAX_BYTES_BODY else io.BytesIO(body)


async def key_of(provider: Provider) -> str:
    """Read the current API key of a provider; empty if it has none. Raises ProviderUnavailable."""
    if provider.key_env is not None:
        key = os.environ.get(provider.key_env, "")
        if not key:
            raise ProviderUnavailable(f"the environment variable {provider.key_env} with the provider's key is not set")
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
    """Transport of a WebSocket; None if the connection is closed."""
    connection = socket._response.connection  # noqa: SLF001 - aiohttp has no public attribute
    return None if connection is None else connection.transport


@asynccontextmanager
async def _limit_time_to_answer(provider: Provider) -> AsyncIterator[None]:
    """Limit the time until a provider answers. Raises ProviderUnavailable."""
    try:
        async with _BeginLimit(provider).hold():
            yield
    except aiohttp.ClientConnectorError as error:
        failure = _connect_failure(error, tls=provider.base_url.lower().startswith("https:"))
        log.warning("A request to the provider at %s failed: %s", authority(error.host, error.port or 0), failure)
        raise ProviderUnavailable(failure) from error
    except SigningFailed as error:
        raise ProviderUnavailable(str(error)) from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise ProviderUnavailable(f"the connection to the provider broke: {type(error).__name__}") from error


def _connect_failure(error: aiohttp.ClientConnectorError, *, tls: bool) -> str:
    """Why a provider cannot be reached, and what to do. The text contains no address, because clients get it."""
    is_unresolved = isinstance(error, aiohttp.ClientConnectorDNSError)
    failure = connect_error(error.os_error, "the provider", tls=tls, from_resolver=is_unresolved)
    advice = _CONNECT_ADVICE.get(failure.reason, "")
    return f"{failure}: {advice}" if advice else str(failure)


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Seconds in `retry-after-ms` or `Retry-After` (RFC 9110 section 10.2.3: seconds, or a date); None if neither is
    valid.
    """
    millis, retry_after = headers.get("retry-after-ms", ""), headers.get("retry-after", "")
    if millis.isdecimal() and len(millis) <= MAX_RETRY_AFTER_DIGITS:
        return int(millis) / 1000
    if retry_after.isdecimal() and len(retry_after) <= MAX_RETRY_AFTER_DIGITS:
        return float(retry_after)
    try:
        return max((parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds(), 0.0)
    except (
        TypeError,
        ValueError,
        OverflowError,
    ):  # raised also for a date without time zone and for a date that does not exist
        return None


def _is_plain(value: str) -> bool:
    return value.isascii() and value.isprintable()


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(name.startswith(pattern) if pattern.endswith("-") else name == pattern for pattern in patterns)
