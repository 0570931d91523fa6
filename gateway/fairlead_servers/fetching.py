"""Fetches pages of the public web, without access to private networks.

The address of each connection is checked by the egress rules that the gateway applies to addresses of servers
(`fairlead_mcp.egress`). Because the resolved IP address is checked, neither a redirect nor a changed DNS record can
lead to a private network.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import httpcore2
import httpx2

from fairlead_mcp.addresses import authority
from fairlead_mcp.egress import AddressNotAllowed, Egress
from fairlead_mcp.errors import ConnectFailed
from fairlead_mcp.http.connect_errors import connect_error
from fairlead_mcp.http.dial import Resolve, resolve_by_dns
from fairlead_servers.page import Page

PRIVATE_NETWORKS: Final = (
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "240.0.0.0/4",
    "fc00::/7",
    "fec0::/10",
)
"""Networks that are not public (RFC 6890), in addition to the networks that `Egress` denies to every confined
process.
"""
MOST_REDIRECTS: Final = 5
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_NO_NAMESPACE: Final = "-"
"""Namespace of the fetcher for the egress rules: not a valid name, so that no Service of a cluster counts as local."""
_AGENT: Final = b"fairlead-web-search/1.0 (+https://modelcontextprotocol.io)"


class FetchFailed(Exception):
    """A page that could not be fetched; the message is a sentence without its full stop."""


class Fetcher:
    """Client of the public web. `timeout_s` limits the time of a page with all its redirects."""

    def __init__(
        self,
        *,
        allowed: Sequence[str],
        most_bytes: int,
        timeout_s: float,
        redirects: int = MOST_REDIRECTS,
        resolve: Resolve = resolve_by_dns,
    ) -> None:
        """`allowed`: private hosts and networks from which pages may be fetched. Raises BadEgress."""
        egress = Egress.of(allowed, PRIVATE_NETWORKS, confined=True)
        self._redirects = redirects
        self._most_bytes = most_bytes
        self._timeout_s = timeout_s
        self._backend = _GuardedBackend(egress.guard(resolve, _NO_NAMESPACE), timeout_s)

    async def fetch(self, url: str, accept: str = "text/html,text/plain,application/json;q=0.9,*/*;q=0.1") -> Page:
        """Fetch a page by GET. Raises FetchFailed."""
        pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(), network_backend=self._backend, max_connections=2
        )
        try:
            async with asyncio.timeout(self._timeout_s), pool:
                return await self._follow(pool, url, accept)
        except TimeoutError as error:
            raise FetchFailed(f"{_short_url(url)} did not respond within {self._timeout_s:g} s") from error
        except AddressNotAllowed as error:
            raise FetchFailed(f"{error.target}; only pages of public addresses are fetched") from error
        except ConnectFailed as error:
            raise FetchFailed(str(error)) from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException, OSError) as error:
            raise FetchFailed(f"connection to {_short_url(url)} lost: {str(error) or type(error).__name__}") from error

    async def _follow(self, pool: httpcore2.AsyncConnectionPool, url: str, accept: str) -> Page:
        for _ in range(self._redirects + 1):
            target = _target(url)
            headers = [
                (b"Host", target.netloc),
                (b"Accept", accept.encode()),
                (b"Accept-Encoding", b"identity"),
                (b"User-Agent", _AGENT),
            ]
            async with pool.stream("GET", str(target), headers=headers) as response:
                answer_headers = {bytes(name).lower(): bytes(value) for name, value in response.headers}
                if response.status not in _REDIRECTS or b"location" not in answer_headers:
                    return await self._page(url, response, answer_headers)
                url = _redirect_target(url, answer_headers[b"location"])
        raise FetchFailed(f"{_short_url(url)} redirects more than {self._redirects} times")

    async def _page(self, url: str, response: httpcore2.Response, headers: dict[bytes, bytes]) -> Page:
        coding = headers.get(b"content-encoding", b"identity").decode("latin-1").strip().lower()
        if coding not in ("", "identity"):
            raise FetchFailed(f"{_short_url(url)} has the content encoding {coding[:20]!r}, which was not requested")
        parts: list[bytes] = []
        size = 0
        async for part in response.aiter_stream():
            parts.append(part)
            size += len(part)
            if size > self._most_bytes:
                break
        body = b"".join(parts)
        media_type, _, parameters = headers.get(b"content-type", b"").decode("latin-1").partition(";")
        charset = parameters.lower().partition("charset=")[2].partition(";")[0].strip("\"' ") or None
        is_cut = size > self._most_bytes
        return Page(url, response.status, media_type.strip().lower(), charset, body[: self._most_bytes], is_cut)


def _first_cause(error: Exception) -> Exception:
    """The operating system's error behind an error of the HTTP client, which itself only says `All connection attempts
    failed`.
    """
    while isinstance(error.__cause__, Exception):
        error = error.__cause__
    return error


class _GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Network backend that connects only to addresses that `resolve` returns after checking them."""

    def __init__(self, resolve: Resolve, timeout_s: float) -> None:
        self._resolve = resolve
        self._timeout_s = timeout_s
        self._network_backend = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first reachable address. Raises ConnectFailed."""
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise ConnectFailed(f"the host name {host} does not resolve", reason="UnknownHost") from error
        failure: Exception | None = None
        for address, address_port in addresses:
            try:
                return await self._network_backend.connect_tcp(
                    address,
                    address_port,
                    timeout=self._timeout_s / len(addresses),
                    local_address=local_address,
                    socket_options=socket_options,
                )
            except (httpcore2.NetworkError, httpcore2.TimeoutException, OSError) as error:
                failure = error
        peer = authority(host, port)
        if failure is None:
            raise ConnectFailed(f"{peer} cannot be reached (the name has no address)")
        if isinstance(failure, httpcore2.TimeoutException):  # its text is empty
            raise ConnectFailed(f"{peer} accepted no connection within {self._timeout_s:g} s", reason="ConnectTimeout")
        raise connect_error(_first_cause(failure), peer, tls=False) from failure

    async def sleep(self, seconds: float) -> None:
        """Wait between the pool's retries."""
        await asyncio.sleep(seconds)


def host_of(url: str) -> str | None:
    """Host of an http or https URL; None if the text is not such a URL."""
    try:
        return _target(url).host or None
    except FetchFailed:
        return None


def _redirect_target(url: str, location: bytes) -> str:
    """URL that a redirect leads to. Raises FetchFailed."""
    target = location.decode("utf-8", "replace")
    try:
        return urljoin(url, target)
    except ValueError as error:
        raise FetchFailed(f"{_short_url(url)} redirects to {_short_url(target)!r}, which is not a URL") from error


def _target(url: str) -> httpx2.URL:
    """Parse an http or https URL, and convert it to ASCII: host names by IDNA, the rest percent-encoded. Raises
    FetchFailed."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 0) >= 0
    except ValueError as error:
        raise FetchFailed(f"{_short_url(url)!r} is not an http or https URL") from error
    if not is_usable or not url.isprintable() or " " in url:
        raise FetchFailed(f"{_short_url(url)!r} is not an http or https URL")
    if parts.username is not None or parts.password is not None:
        raise FetchFailed("the URL must not contain credentials")
    try:
        return httpx2.URL(url.partition("#")[0])
    except httpx2.InvalidURL as error:
        raise FetchFailed(f"{_short_url(url)!r} is not an http or https URL") from error


def _short_url(url: str) -> str:
    return url if len(url) <= 200 else f"{url[:200]}…"
