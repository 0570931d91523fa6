"""Finds gateway replicas by DNS, and polls them over HTTP at their operations ports. Implements `ports.Gateways`.

A headless Service resolves to one address per pod, so no rights in the Kubernetes API are needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Final
from urllib.parse import urlsplit

import aiohttp
import msgspec

from fairlead_api.reports import PATH, Report
from fairlead_mcp.addresses import authority
from fairlead_mcp.http.dial import Resolve, resolve_by_dns
from fairlead_operator.ports import GatewayTrouble

DEFAULT_PORT: Final = 9464
CONNECT_SECONDS: Final = 2.0
MARGIN_SECONDS: Final = 5.0
"""Seconds that a report may take in addition to the time for which the gateway may hold the request."""
MOST_BYTES: Final = 32 << 20
"""Maximum number of bytes of a report."""
_decode = msgspec.json.Decoder(Report).decode


class HttpGateways:
    """Gateway replicas, found by DNS and polled over HTTP. `urls` are `http://HOST[:PORT]`; `token` is the gateways'
    FAIRLEAD_PULL_TOKEN.
    """

    def __init__(self, urls: Sequence[str], token: str = "", resolve: Resolve = resolve_by_dns) -> None:
        """Raises ValueError for a URL of another form."""
        self._hosts_and_ports = [_host_and_port(url) for url in urls]
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._resolve = resolve
        self._session: aiohttp.ClientSession | None = None

    async def replicas(self) -> Collection[str]:
        """`ADDRESS:PORT` of every replica; none for a name that cannot be resolved."""
        replicas: set[str] = set()
        for host, port in self._hosts_and_ports:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    addresses = await self._resolve(host, port)
            except (OSError, TimeoutError):
                continue
            replicas |= {authority(address, replica_port) for address, replica_port in addresses}
        return replicas

    async def report(self, replica: str, cursor: str, wait: float) -> Report:
        """Request a replica's report since `cursor` by a long poll: the gateway may hold the request for `wait`
        seconds. Raises GatewayTrouble.
        """
        if self._session is None:
            self._session = aiohttp.ClientSession()
        # `asyncio.timeout` limits the total time, because aiohttp loses a cancellation that coincides with its `total`.
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS)
        try:
            async with (
                asyncio.timeout(wait + MARGIN_SECONDS),
                self._session.get(
                    f"http://{replica}{PATH}",
                    params={"since": cursor, "wait": str(wait)},
                    headers=self._headers,
                    timeout=timeout,
                    allow_redirects=False,
                ) as answer,
            ):
                body = await _read_bounded(answer)
                if answer.status != 200:
                    raise GatewayTrouble(f"HTTP {answer.status}: {body[:200].decode('utf-8', 'replace').strip()}")
                return _decode(body)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise GatewayTrouble(str(error) or type(error).__name__) from error
        except msgspec.MsgspecError as error:
            raise GatewayTrouble(f"the answer is not a valid report: {error}") from error

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()


async def _read_bounded(answer: aiohttp.ClientResponse) -> bytes:
    """Read the body of an answer. Raises GatewayTrouble if it has more than `MOST_BYTES`."""
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > MOST_BYTES:
            raise GatewayTrouble(f"the report has more than {MOST_BYTES} bytes")
    return bytes(body)


def _host_and_port(url: str) -> tuple[str, int]:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme != "http" or not parts.hostname or parts.path not in ("", "/"):
        raise ValueError(f"{url!r} is not the address of a gateway, such as http://fairlead-gateway-ops:{DEFAULT_PORT}")
    return parts.hostname, parts.port or DEFAULT_PORT
