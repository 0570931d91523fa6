"""Opening of connections: resolves a name, tries its addresses in order, explains failures.

Names are looked up by the system's resolver in threads of their own (`Lookups`). An event loop looks names up in
threads that it also needs for other work: asyncio in as few as five, libuv in four. A lookup without an answer takes
one of them for ten seconds and more, so a few such names would keep every other name waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl as tls
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future
from typing import Any, Final, TypeAlias, TypeVar

from fairlead_mcp.addresses import authority
from fairlead_mcp.errors import ConnectFailed
from fairlead_mcp.http.connect_errors import connect_error

_THREADS: Final = 64
"""Maximum number of names that are looked up at once; further names wait."""
AddressInfo: TypeAlias = list[tuple[Any, ...]]
"""Answer of `socket.getaddrinfo`."""
Lookup: TypeAlias = Callable[[str, int, int], AddressInfo]
"""Looks up a host with a port and flags (`AI_…`); blocks."""
Address: TypeAlias = tuple[str, int]
Resolve: TypeAlias = Callable[[str, int], Awaitable[list[Address]]]
"""Resolves a host name, with the port, to the addresses to try, in order."""
NameOf: TypeAlias = Callable[[str], Awaitable[str]]
"""Reverse lookup of an address (PTR, RFC 1035 section 3.5); empty without a name."""
RESOLVER_SECONDS: Final = 1.0
"""Limit in seconds for the resolver, if addresses of the name are cached."""
FRESH_SECONDS: Final = 1.0
"""Seconds for which `CachedNames.recent` reuses an answer. Every open stream looks its server's pods up
(`fairlead_mcp.http.peers`), so that a thousand streams to one server would ask the name server 200 times a second.
"""
CACHE_SECONDS: Final = 300.0
"""Seconds for which addresses are cached; limited, as a pod's address may later belong to another pod."""
UNKNOWN_NAME_SECONDS: Final = 4.5
"""Seconds for which an unknown name is looked up again.

If a name is looked up before the server's first pod is ready, a replica of CoreDNS caches for 5 s that the name does
not exist, while another replica may have it. The limit is less than the 5 s that a `Pool` waits for the resolver, so
that the resolver's error is shown instead of a timeout.
"""
_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 0.8
_P = TypeVar("_P", bound=asyncio.Protocol)


def _system_lookup(host: str, port: int, flags: int) -> AddressInfo:
    return [*socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags | socket.AI_CANONNAME)]


def system_name(address: str, port: int, flags: int) -> AddressInfo:
    """Return the name of an address (PTR, RFC 1035 section 3.5), as the only member of the only tuple. Raises OSError
    if it has none; socket.gaierror with `AI_NUMERICHOST`, which forbids the use of a resolver.
    """
    if flags & socket.AI_NUMERICHOST:
        raise socket.gaierror(socket.EAI_NONAME, "a reverse lookup needs a resolver")
    name, _ = socket.getnameinfo((address, port), socket.NI_NAMEREQD | socket.NI_NUMERICSERV)
    return [(name,)]


class Lookups:
    """Looks up names in threads, each name at most once at a time. Several event loops may share an object.

    The threads are daemons, which end with their work: a resolver without an answer must not hold up the end of the
    process, as the threads of a `ThreadPoolExecutor` would.
    """

    def __init__(self, lookup: Lookup = _system_lookup, threads: int = _THREADS) -> None:
        self._lookup = lookup
        self._limit = threads
        self._lock = threading.Lock()
        self._threads = 0
        """Number of running threads."""
        self._queue: deque[tuple[str, int, Future[AddressInfo]]] = deque()
        self._running: dict[tuple[str, int], Future[AddressInfo]] = {}

    async def __call__(self, host: str, port: int) -> AddressInfo:
        """Return the answer of `socket.getaddrinfo`. Raises socket.gaierror, OSError if no thread can be started, or
        UnicodeError for a host that cannot be a name.
        """
        with contextlib.suppress(socket.gaierror):  # raised for a name
            return self._lookup(host, port, socket.AI_NUMERICHOST)  # an address needs no lookup and no thread
        key = (host, port)
        running = self._running.get(key)
        if running is None:
            running = self._running[key] = self._start(host, port)
            running.add_done_callback(lambda _: self._running.pop(key, None))
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[AddressInfo] = loop.create_future()

        def hand_over(done: Future[AddressInfo]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed before the resolver answered
                loop.call_soon_threadsafe(_settle, answer, done)

        running.add_done_callback(hand_over)
        return await answer

    def _start(self, host: str, port: int) -> Future[AddressInfo]:
        answer: Future[AddressInfo] = Future()
        job = (host, port, answer)
        with self._lock:
            self._queue.append(job)
            if self._threads == self._limit:
                return answer
            self._threads += 1
        try:
            threading.Thread(target=self._work, name="resolver", daemon=True).start()
        except RuntimeError as error:  # the machine allows no more threads
            with self._lock:
                self._threads -= 1
                with contextlib.suppress(ValueError):  # another thread has taken the job
                    self._queue.remove(job)
            raise OSError(str(error)) from error
        return answer

    def _work(self) -> None:
        """Look up queued names until there are none."""
        while True:
            with self._lock:
                if not self._queue:
                    self._threads -= 1
                    return
                host, port, answer = self._queue.popleft()
            try:
                addresses = self._lookup(host, port, 0)
            except Exception as error:  # noqa: BLE001 - raised where the answer is awaited
                answer.set_exception(error)
            else:
                answer.set_result(addresses)


def _settle(waiter: asyncio.Future[AddressInfo], lookup: Future[AddressInfo]) -> None:
    if waiter.done():  # nobody waits any more
        return
    if (error := lookup.exception()) is not None:
        waiter.set_exception(error)
    else:
        waiter.set_result(lookup.result())


class Resolved(list[Address]):
    """Addresses of a name, with the name at the end of its CNAME records."""

    def __init__(self, addresses: Iterable[Address], canonical: str = "") -> None:
        super().__init__(addresses)
        self.canonical = canonical
        """Canonical name; empty if unknown."""


_look_up: Final = Lookups()
_look_up_name: Final = Lookups(system_name)


async def resolve_by_dns(host: str, port: int) -> list[Address]:
    """Resolve `host` by the system's resolver. Raises socket.gaierror."""
    answers = await _look_up(host, port)
    canonical = next((name for *_, name, _ in answers if name), "")
    return Resolved([(str(address[0]), int(address[1])) for *_, address in answers], canonical)


async def name_by_dns(address: str) -> str:
    """Look up the name of an address by the system's resolver; empty without one, or after `RESOLVER_SECONDS`."""
    try:
        async with asyncio.timeout(RESOLVER_SECONDS):
            answers = await _look_up_name(address, 0)
    except (OSError, UnicodeError):  # a TimeoutError is an OSError
        return ""
    return str(answers[0][0])


class CachedNames:
    """Resolver with a cache for outages: it returns the last addresses of a name when `resolve` does not answer.

    An unknown name is looked up again for `UNKNOWN_NAME_SECONDS` after its first failure, and later fails at once.
    `clock` is in seconds.
    """

    def __init__(self, resolve: Resolve, clock: Callable[[], float] = time.monotonic) -> None:
        self._resolve = resolve
        self._clock = clock
        self._cached_addresses: dict[Address, tuple[float, list[Address]]] = {}
        self._unknown_since: dict[Address, float] = {}
        """Time of the first failure of each unknown name."""

    async def __call__(self, host: str, port: int) -> list[Address]:
        """Resolve a name. Raises the resolver's error if the name is not in the cache."""
        pause = _PAUSE
        while True:
            self._forget()
            try:
                addresses = await self._answer(host, port)
            except socket.gaierror:
                now = self._clock()
                if now + pause - self._unknown_since.setdefault((host, port), now) > UNKNOWN_NAME_SECONDS:
                    raise
            else:
                self._unknown_since.pop((host, port), None)
                return addresses
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def recent(self, host: str, port: int) -> list[Address]:
        """Resolve a name, by a look-up of the last second if there was one. Raises like `__call__`."""
        cached_answer = self._cached_addresses.get((host, port))
        if cached_answer is not None and self._clock() - cached_answer[0] < FRESH_SECONDS:
            return cached_answer[1]
        return await self(host, port)

    async def _answer(self, host: str, port: int) -> list[Address]:
        cached_answer = self._cached_addresses.get((host, port))
        try:
            async with asyncio.timeout(None if cached_answer is None else RESOLVER_SECONDS):
                addresses = await self._resolve(host, port)
        except (socket.gaierror, TimeoutError) as error:
            if cached_answer is None or (isinstance(error, socket.gaierror) and error.errno != socket.EAI_AGAIN):
                raise
            return cached_answer[1]
        self._cached_addresses[host, port] = (self._clock(), addresses)
        return addresses

    def _forget(self) -> None:
        now = self._clock()
        for key in [key for key, (at, _) in self._cached_addresses.items() if now - at > CACHE_SECONDS]:
            del self._cached_addresses[key]
        for key in [key for key, at in self._unknown_since.items() if now - at > CACHE_SECONDS]:
            del self._unknown_since[key]


class Dialer:
    """Connects to one host and port. `timeout` (seconds) limits the lookup and, separately, all attempts together."""

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
        self._peer_name = authority(host, port)
        self._ssl = ssl
        self._server_hostname = (server_hostname or host) if ssl is not None else None
        self._resolve = resolve
        self._timeout = timeout

    async def connect(self, protocol: Callable[[], _P]) -> _P:
        """Connect a new protocol and return it. Raises ConnectFailed."""
        failure: Exception | None = None
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
        if failure is None:
            raise ConnectFailed(f"{self._peer_name} cannot be reached (the name has no address)")
        raise self._explain(failure) from failure

    async def _addresses(self) -> list[Address]:
        try:
            async with asyncio.timeout(self._timeout):
                return await self._resolve(self._host, self._port)
        except TimeoutError as error:
            message = f"the host name {self._host} was not resolved within {self._timeout:g} s"
            raise ConnectFailed(message, reason="UnknownHost") from error
        except (OSError, UnicodeError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or error
            message = f"the host name {self._host} cannot be resolved ({reason})"
            raise ConnectFailed(message, reason="UnknownHost") from error

    def _explain(self, error: Exception) -> ConnectFailed:
        if isinstance(error, TimeoutError):
            message = f"{self._peer_name} accepted no connection within {self._timeout:g} s"
            return ConnectFailed(message, reason="ConnectTimeout")
        certificate_host = self._server_hostname or self._host
        return connect_error(error, self._peer_name, tls=self._ssl is not None, certificate_host=certificate_host)
