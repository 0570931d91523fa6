"""Informer that lists objects and then watches them, across outages and without missing deletions.

Each list is complete: an object that is missing in it was deleted. The informer lists at the start, when the API server
reports that a watch has missed events, and every `resync` seconds, so that a lost event has no lasting effect. An
informer without its own watch receives events by `observe`, and lists more often.
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
from fairlead_kube.resources import Scope, is_older
from fairlead_mcp.backoff import Backoff

logger = logging.getLogger(__name__)

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
StoreResult = Awaitable[None] | None
"""Result of a store's method; if it is an awaitable, the informer awaits it before the next event."""

RESYNC_SECONDS: Final = 600.0
"""Default time between two complete lists, in seconds."""


class Store(Protocol[T_contra]):
    """Store of objects that an informer updates. Its methods are called in the event loop and must not block."""

    def replace(self, objects: Sequence[T_contra], version: str) -> StoreResult:
        """Replace all objects by the objects of a list with a resourceVersion; missing objects were deleted. Reading an
        object of the sequence may raise ApiError.
        """
        ...

    def update(self, item: T_contra) -> StoreResult:
        """Add or update an object."""
        ...

    def delete(self, item: T_contra) -> StoreResult:
        """Delete an object, which was deleted at the API server or no longer matches the selector."""
        ...


class Informer(Generic[T]):
    """Keeps a store synchronized with the objects of one scope at an API server.

    `synced` is set after the first list. A watched scope is listed again when a watch ends and `resync` seconds have
    passed. With `watches` False, the informer only lists: every `resync` seconds, varied randomly by 10 %. The first
    list is then read from etcd, and further lists from the API server's cache.

    `on_contact` is called whenever the API server has responded. `on_failure` is called after each failure, before a
    pause of 0.1 to 2 seconds; without it, `on_new_failure` is called once for failures in a row that are the same. By
    default, new failures are logged, except outages while the informer watches.
    """

    def __init__(
        self,
        kube: Kube,
        scope: Scope[T],
        store: Store[T],
        *,
        watches: bool = True,
        resync: float = RESYNC_SECONDS,
        on_contact: Callable[[], None] = lambda: None,
        on_failure: Callable[[ApiError], None] | None = None,
        on_new_failure: Callable[[ApiError], None] | None = None,
        random: Callable[[], float] = randomness.random,
    ) -> None:
        self._kube = kube
        self._scope = scope
        self._store = store
        self._watches = watches
        self._resync = resync
        self._on_contact = on_contact
        self._on_failure = on_failure or self._log_once
        self._on_new_failure = on_new_failure
        self._random = random
        self._backoff = Backoff(random, base=0.1, cap=2.0)
        self._version: str | None = None
        self._list_version = ""
        """resourceVersion of the last list."""
        self._listed_at = 0.0
        """Time of the last list, by the event loop's clock."""
        self._state_logged = ""
        """Failure that was told last; it is not told again before a success."""
        self.synced = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Informer {self._scope} version={self._version} synced={self.synced.is_set()}>"

    async def run(self) -> None:
        """List and watch until cancelled."""
        step = self._list_and_watch if self._watches else self._list_periodically
        while True:
            try:
                await step()
            except Gone:
                self._version = None
            except ApiError as error:
                self._on_failure(error)
            # a pause follows a stream without errors too, in case the API server ends each stream at once
            await asyncio.sleep(self._backoff.delay_after(0.0))

    def observe(self, type_: str | None, item: T) -> StoreResult:
        """Apply one event of a watch that other code runs: ADDED, MODIFIED, DELETED, or None for a listed object."""
        return self._store.delete(item) if type_ == "DELETED" else self._store.update(item)

    async def _list_and_watch(self) -> None:
        is_overdue = asyncio.get_running_loop().time() - self._listed_at >= self._resync
        if self._version is None or is_overdue:
            self._version = await self._list()
        async with aclosing(self._kube.watch(self._scope, self._version, self._on_contact)) as events:
            async for event in events:
                self._on_contact()
                self._backoff.failures = 0
                self._state_logged = ""
                self._version = event.version or self._version
                if event.object is not None:
                    await _await_work(self.observe(event.type, event.object))

    async def _list_periodically(self) -> None:
        while True:
            self._version = await self._list(cached=self.synced.is_set())
            self._backoff.failures = 0
            self._state_logged = ""
            await asyncio.sleep(self._resync * (0.9 + 0.2 * self._random()))

    async def _list(self, *, cached: bool = False) -> str:
        """List all objects into the store, and return the version to watch from."""
        objects, version = await self._kube.list(self._scope, cached=cached)
        if cached and is_older(version, self._list_version):
            # either the cache of this API server lags behind that of another one, or etcd was restored from a backup;
            # an uncached list distinguishes the two cases
            objects, version = await self._kube.list(self._scope)
        self._on_contact()
        await _await_work(self._store.replace(objects, version))
        self._list_version = version
        self._listed_at = asyncio.get_running_loop().time()
        self.synced.set()
        return version

    def _log_once(self, error: ApiError) -> None:
        is_outage = isinstance(error, Unavailable)
        state = "unavailable" if is_outage else str(error)
        if state == self._state_logged:
            return
        if self._on_new_failure is not None:
            self._on_new_failure(error)
        elif is_outage and self._watches:  # after an outage, a list shows what was missed
            return
        else:
            self._log(error)
        self._state_logged = state

    def _log(self, error: ApiError) -> None:
        level = logging.ERROR if isinstance(error, Forbidden) else logging.WARNING
        consequence = (
            "the request is tried again" if self._watches else "deletions are not noticed until a list succeeds"
        )
        logger.log(level, "Kubernetes %s cannot be read, %s: %s", self._scope, consequence, error)


async def _await_work(work: StoreResult) -> None:
    if work is not None:
        await work
