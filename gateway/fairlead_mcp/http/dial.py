"""Opening connections: resolving, trying addresses in order, and saying why none answered."""

from __future__ import annotations

import asyncio
import socket
import ssl as tls
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeAlias, TypeVar

from fairlead_mcp.addresses import authority
from fairlead_mcp.errors import ConnectFailed

Address: TypeAlias = tuple[str, int]


class Resolved(list[Address]):
    """Addresses of a name, and the name that they stand under in the end: of an alias (CNAME), what it leads to."""

    def __init__(self, addresses: Iterable[Address], canonical: str = "") -> None:
        super().__init__(addresses)
        self.canonical = canonical
        """Empty where it is not known."""


Resolve: TypeAlias = Callable[[str, int], Awaitable[list[Address]]]
NameOf: TypeAlias = Callable[[str], Awaitable[str]]
"""The name that a name server knows an address by (PTR, RFC 1035 section 3.5); empty where it knows none."""

PATIENCE: Final = 1.0
"""Seconds that a name server gets for a name whose addresses are known."""
REMEMBERED: Final = 300.0
"""Seconds that they stay known. A pod's address goes to another pod some time after it is gone."""
GRACE: Final = 4.5
"""Seconds in which a name that is denied is asked for again: less than a dial gets, so that it fails with what the name
server said. Once anybody asks before a server's first pod is ready, a replica of CoreDNS denies its name for 5 s, when
another one may know it.
"""
_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 0.8

_P = TypeVar("_P", bound=asyncio.Protocol)


async def resolve_by_dns(host: str, port: int) -> list[Address]:
    """Addresses of `host` by the system's resolver. Raises socket.gaierror."""
    lookup = asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_CANONNAME)
    answers = await lookup
    canonical = next((name for *_, name, _ in answers if name), "")
    return Resolved([(str(address[0]), int(address[1])) for *_, address in answers], canonical)


async def name_by_dns(address: str) -> str:
    """The name of an address by the system's resolver; empty where there is none, or none came within `PATIENCE`."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(PATIENCE):
            name, _ = await loop.getnameinfo((address, 0), socket.NI_NAMEREQD | socket.NI_NUMERICSERV)
    except (OSError, UnicodeError):  # a TimeoutError is an OSError
        return ""
    return name


class RememberedNames:
    """A resolver that knows the last addresses of a name, for when its own does not answer: a name server that is away
    or loses a packet costs no call then. A name that there is not, or not any more, is asked for again for `GRACE`
    seconds after it was first denied; from then on the name server is believed at once.

    `clock` is in seconds.
    """

    def __init__(self, resolve: Resolve, clock: Callable[[], float] = time.monotonic) -> None:
        self._resolve = resolve
        self._clock = clock
        self._remembered: dict[Address, tuple[float, list[Address]]] = {}
        self._denied: dict[Address, float] = {}
        """When each was first denied."""

    async def __call__(self, host: str, port: int) -> list[Address]:
        """Raises what the resolver raises for a name of which nothing is known."""
        pause = _PAUSE
        while True:
            self._forget()
            try:
                addresses = await self._answer(host, port)
            except socket.gaierror:
                now = self._clock()
                if now + pause - self._denied.setdefault((host, port), now) > GRACE:
                    raise
            else:
                self._denied.pop((host, port), None)
                return addresses
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _answer(self, host: str, port: int) -> list[Address]:
        remembered = self._remembered.get((host, port))
        try:
            async with asyncio.timeout(None if remembered is None else PATIENCE):
                addresses = await self._resolve(host, port)
        except (socket.gaierror, TimeoutError) as error:
            if remembered is None or (isinstance(error, socket.gaierror) and error.errno != socket.EAI_AGAIN):
                raise
            return remembered[1]
        self._remembered[host, port] = (self._clock(), addresses)
        return addresses

    def _forget(self) -> None:
        now = self._clock()
        for key in [key for key, (at, _) in self._remembered.items() if now - at > REMEMBERED]:
            del self._remembered[key]
        for key in [key for key, at in self._denied.items() if now - at > REMEMBERED]:
            del self._denied[key]


class Dialer:
    """Connects to one host and port. `timeout` (seconds) bounds the resolving and, again, all attempts together."""

    def __init__(
        self,
        host: str,
        port: int,
        ssl: tls.SSLContext | None,
        server_hostname: str | None,
        resolve: Resolve,
        timeout: float,
    ) -> None:
        self._host = host
        self._port = port
        self._where = authority(host, port)
        self._ssl = ssl
        self._server_hostname = (server_hostname or host) if ssl is not None else None
        self._resolve = resolve
        self._timeout = timeout

    async def connect(self, protocol: Callable[[], _P]) -> _P:
        """A connected protocol. Raises ConnectFailed."""
        failure: Exception = OSError("it has no address")
        addresses = await self._addresses()
        for host, port in addresses:
            try:
                async with asyncio.timeout(self._timeout / len(addresses)):
                    _, connected = await asyncio.get_running_loop().create_connection(
                        protocol, host, port, ssl=self._ssl, server_hostname=self._server_hostname
                    )
                    return connected
            except (OSError, tls.CertificateError) as error:  # a TimeoutError is an OSError
                failure = error
        raise self._explain(failure) from failure

    async def _addresses(self) -> list[Address]:
        try:
            async with asyncio.timeout(self._timeout):
                return await self._resolve(self._host, self._port)
        except TimeoutError as error:
            message = f"no address for {self._host} came within {self._timeout:g} s"
            raise ConnectFailed(message, reason="UnknownHost") from error
        except (OSError, UnicodeError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or error
            raise ConnectFailed(f"the host name {self._host} is unknown ({why})", reason="UnknownHost") from error

    def _explain(self, error: Exception) -> ConnectFailed:
        if isinstance(error, ConnectionRefusedError):
            return ConnectFailed(f"{self._where} refused the connection", reason="ConnectionRefused")
        if isinstance(error, tls.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
            message = f"{self._where} does not speak TLS: try http:// in place of https://"
            return ConnectFailed(message, reason="TLSFailed")
        if isinstance(error, tls.SSLError) or (self._ssl is not None and isinstance(error, ConnectionError)):
            return ConnectFailed(f"TLS with {self._where} failed ({error})", reason="TLSFailed")
        if isinstance(error, TimeoutError):
            message = f"{self._where} accepted no connection within {self._timeout:g} s"
            return ConnectFailed(message, reason="ConnectTimeout")
        return ConnectFailed(f"{self._where} cannot be reached ({error})")
