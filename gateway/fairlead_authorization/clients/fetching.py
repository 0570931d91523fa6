"""Fetches documents of clients: one GET over https, to a public address, without redirects or proxies, with limits on
bytes and time.

An attacker can choose the URL, so a request must reach only public hosts that the settings allow. The resolver returns
only public addresses, and the connection is opened to a returned address, so that a second look-up of the name cannot
lead elsewhere (DNS rebinding).
"""

from __future__ import annotations

import re
import ssl as tls
import time
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from fairlead_authorization.clients.client import ClientUnavailable, UnknownClient
from fairlead_authorization.clients.client_ids import DocumentAddress
from fairlead_mcp.egress import AddressNotAllowed
from fairlead_mcp.errors import BadHttp, McpError, TooLarge
from fairlead_mcp.http.answer import Answer
from fairlead_mcp.http.dial import Resolve
from fairlead_mcp.http.pool import Pool

FETCH_SECONDS: Final = 5.0
"""Time limit of a fetch, including the look-up and the connection."""
_HEAD: Final = (
    b"GET %b HTTP/1.1\r\nHost: %b\r\nAccept: application/json\r\nAccept-Encoding: identity\r\nUser-Agent: fairlead\r\n"
    b"Connection: close\r\n\r\n"
)
_JSON: Final = re.compile(rb"application/(?:[a-z0-9.-]+\+)?json\s*(?:;|$)", re.IGNORECASE)
_MAX_AGE: Final = re.compile(rb"(?:^|[,\s])max-age\s*=\s*\"?([0-9]{1,9})", re.IGNORECASE)
_NO_CACHE: Final = re.compile(rb"(?:^|[,\s])no-(?:store|cache)\b", re.IGNORECASE)
_TEMPORARY_STATUSES: Final = frozenset({408, 425, 429})
"""Statuses, in addition to 5xx, that do not show whether the document exists."""

MakeClientTls = Callable[[], Awaitable[tls.SSLContext]]
"""Makes the TLS context that verifies the hosts of clients."""


class FetchedMetadata(NamedTuple):
    """Answer of a client's host."""

    body: bytes
    max_age: float
    """Seconds for which the response may be cached; 0 if the host forbids caching or gives no time."""


Fetch = Callable[[DocumentAddress, int], Awaitable[FetchedMetadata]]
"""Fetches a document; the second parameter is the maximum number of bytes. Raises UnknownClient, ClientUnavailable."""


class DocumentFetcher:
    """Fetches documents, without a cache. `resolve` must return only addresses to which connections are allowed, like
    `fairlead_mcp.egress.public_only`. `clock` is in monotonic seconds.
    """

    def __init__(self, resolve: Resolve, make_tls: MakeClientTls, clock: Callable[[], float] = time.monotonic) -> None:
        self._resolve = resolve
        self._make_tls = make_tls
        self._clock = clock
        self._tls: tls.SSLContext | None = None

    async def __call__(self, address: DocumentAddress, max_bytes: int) -> FetchedMetadata:
        """Fetch a document. Raises UnknownClient if the host does not have it, ClientUnavailable if the host cannot be
        reached.
        """
        if self._tls is None:
            self._tls = await self._make_tls()
        pool = Pool(
            address.host,
            address.port,
            ssl=self._tls,
            limit=1,
            connect_timeout=FETCH_SECONDS,
            resolve=self._resolve,
            clock=self._clock,
        )
        request = _HEAD % (address.target, address.authority.encode("ascii"))
        try:
            answer = await pool.exchange(request, deadline=self._clock() + FETCH_SECONDS, max_bytes=max_bytes)
        except AddressNotAllowed as error:
            raise UnknownClient(
                f"the document {address.url} is not fetched: {error.target}; an administrator can describe this client "
                "in clients of authorizationServer"
            ) from error
        except TooLarge as error:
            raise UnknownClient(f"the document {address.url} has more than {max_bytes} bytes") from error
        except BadHttp as error:
            raise UnknownClient(
                f"the document {address.url} cannot be fetched: its host does not speak HTTP"
            ) from error
        except McpError as error:
            raise ClientUnavailable(f"the document {address.url} cannot be fetched now: {error}; try again") from error
        finally:
            await pool.aclose()
        return _read(answer, address)


def _read(answer: Answer, address: DocumentAddress) -> FetchedMetadata:
    status = answer.status
    if status >= 500 or status in _TEMPORARY_STATUSES:
        raise ClientUnavailable(f"the host of the document {address.url} answers with status {status}: try again later")
    if 300 <= status < 400:
        raise UnknownClient(f"the document {address.url} redirects elsewhere ({status}), which is not followed")
    if status != 200:
        raise UnknownClient(f"there is no document at {address.url} (status {status})")
    if answer.streamed or not _JSON.match(answer.content_type):
        raise UnknownClient(
            f"the document {address.url} is not JSON by its Content-Type: its publisher has to correct it"
        )
    return FetchedMetadata(answer.body, _max_age(answer.headers.get(b"cache-control", b"")))


def _max_age(cache_control: bytes) -> float:
    """`max-age` of `Cache-Control` in seconds (RFC 9111 section 5.2.2); 0 without one."""
    match = None if _NO_CACHE.search(cache_control) else _MAX_AGE.search(cache_control)
    return float(match[1]) if match else 0.0
