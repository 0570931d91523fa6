"""Lookups of host names by the system's resolver, in threads of their own.

An event loop looks names up in threads that it also needs for other work: asyncio in as few as five, libuv in four. A
lookup without an answer takes one of them for ten seconds and more, so a few such names would keep every other name
waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeAlias

_THREADS: Final = 64
"""Maximum number of names that are looked up at once; further names wait."""

AddressInfo: TypeAlias = list[tuple[Any, ...]]
"""Answer of `socket.getaddrinfo`."""
Lookup: TypeAlias = Callable[[str, int, int], AddressInfo]
"""Looks up a host with a port and flags (`AI_…`); blocks."""


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
        """Answer of `socket.getaddrinfo`. Raises socket.gaierror, OSError if no thread can be started, or UnicodeError
        for a host that cannot be a name.
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
            except Exception as error:  # noqa: BLE001 - raised by who waits for the answer
                answer.set_exception(error)
            else:
                answer.set_result(addresses)


def _settle(answer: asyncio.Future[AddressInfo], done: Future[AddressInfo]) -> None:
    if answer.done():  # nobody waits any more
        return
    if (error := done.exception()) is not None:
        answer.set_exception(error)
    else:
        answer.set_result(done.result())
