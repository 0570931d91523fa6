"""Lists objects and then watches them, through outages, without losing a deletion.

Each list is complete: what it no longer holds is gone. One is made at the start, wherever the API server says that a
watch has missed something, and every `resync` seconds besides, so that nothing stays lost whatever ate an event. An
informer without a watch of its own has its events passed to `observe`, and lists more often.
"""

from __future__ import annotations

import asyncio
import logging
import random as randomness
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Final, Generic, Protocol, TypeVar

from fairlead_kube.client import Kube
from fairlead_kube.errors import ApiError, Forbidden, Gone, Unavailable
from fairlead_kube.resources import Scope, older
from fairlead_mcp.backoff import Backoff

logger = logging.getLogger(__name__)

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
Done = Awaitable[None] | None
"""Returned by a store: what the informer awaits before the next event, if anything."""

RESYNC_SECONDS: Final = 600.0


class Store(Protocol[T_contra]):
    """Objects as an informer last saw them. Called in the event loop; does not block."""

    def replace(self, objects: Sequence[T_contra], version: str) -> Done:
        """Everything that exists as of a resourceVersion; what is missing is gone. Reading one may raise ApiError."""
        ...

    def update(self, item: T_contra) -> Done:
        """Added or modified."""
        ...

    def delete(self, item: T_contra) -> Done:
        """Gone, or no longer matching the selector."""
        ...


class Informer(Generic[T]):
    """Keeps a store like what an API server has of one scope.

    `synced` is set after the first list. With `watches` False it lists only, from the API server's cache after the
    first time, every `resync` seconds, a tenth more or less at random; a watched scope is listed again when a watch
    ends and `resync` seconds have passed. `contact` is called at each sign of life of the API server, `failed` after
    each failure, before a pause of 0.1 to 2 seconds; by default failures are logged, but for outages.
    """

    def __init__(
        self,
        kube: Kube,
        scope: Scope[T],
        store: Store[T],
        *,
        watches: bool = True,
        resync: float = RESYNC_SECONDS,
        contact: Callable[[], None] = lambda: None,
        failed: Callable[[ApiError], None] | None = None,
        random: Callable[[], float] = randomness.random,
    ) -> None:
        self._kube = kube
        self._scope = scope
        self._store = store
        self._watches = watches
        self._resync = resync
        self._contact = contact
        self._failed = failed or self._log
        self._random = random
        self._backoff = Backoff(random, base=0.1, cap=2.0)
        self._version: str | None = None
        self._listed = ""
        self._listed_at = 0.0
        self._state_logged = ""
        self.synced = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Informer {self._scope} version={self._version} synced={self.synced.is_set()}>"

    async def run(self) -> None:
        """List and watch until cancelled."""
        step = self._list_and_watch if self._watches else self._list_and_rest
        while True:
            try:
                await step()
            except Gone:
                self._version = None
            except ApiError as error:
                self._failed(error)
            # after a stream that ended well too: an API server that ends each at once is not asked without a pause
            await asyncio.sleep(self._backoff.after(0.0))

    def observe(self, type_: str | None, item: T) -> Done:
        """Take in one event of a watch that somebody else holds: ADDED, MODIFIED, DELETED, or None for an object that
        was listed.
        """
        return self._store.delete(item) if type_ == "DELETED" else self._store.update(item)

    async def _list_and_watch(self) -> None:
        overdue = asyncio.get_running_loop().time() - self._listed_at >= self._resync
        if self._version is None or overdue:
            self._version = await self._list()
        async with aclosing(self._kube.watch(self._scope, self._version, self._contact)) as events:
            async for event in events:
                self._contact()
                self._backoff.failures = 0
                self._state_logged = ""
                self._version = event.version or self._version
                if event.object is not None:
                    await _await_work(self.observe(event.type, event.object))

    async def _list_and_rest(self) -> None:
        while True:
            self._version = await self._list(cached=self.synced.is_set())
            self._backoff.failures = 0
            self._state_logged = ""
            await asyncio.sleep(self._resync * (0.9 + 0.2 * self._random()))

    async def _list(self, *, cached: bool = False) -> str:
        """List everything; the version to watch from."""
        objects, version = await self._kube.list(self._scope, cached=cached)
        if cached and older(version, self._listed):
            # the cache of one of several API servers, which lags behind that of another; or everything was restored
            # from a backup, and then a list that is not of a cache tells
            objects, version = await self._kube.list(self._scope)
        self._contact()
        await _await_work(self._store.replace(objects, version))
        self._listed = version
        self._listed_at = asyncio.get_running_loop().time()
        self.synced.set()
        return version

    def _log(self, error: ApiError) -> None:
        outage = isinstance(error, Unavailable)
        state = "unavailable" if outage else str(error)
        if state == self._state_logged or (outage and self._watches):  # what a watch misses, the list after it finds
            return
        self._state_logged = state
        level = logging.ERROR if isinstance(error, Forbidden) else logging.WARNING
        words = "tried again" if self._watches else "what is deleted meanwhile is not seen until lists succeed"
        logger.log(level, "%s: %s", words, error)


async def _await_work(work: Done) -> None:
    if work is not None:
        await work
