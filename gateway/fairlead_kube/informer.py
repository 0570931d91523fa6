"""Lists objects once and then watches them, through outages, without losing a deletion.

Kopf is not used for these: its watches take no label selector, so a busy cluster's every Deployment and every Secret
would pass through the operator; and what is deleted while its connection is down is never reported. Here each listing
is complete, and what it no longer holds is gone.
"""

from __future__ import annotations

import asyncio
import logging
import random as randomness
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Generic, Protocol, TypeVar

from fairlead_kube.client import Kube
from fairlead_kube.errors import ApiError, Forbidden, Gone, Unavailable
from fairlead_kube.resources import Scope
from fairlead_mcp.backoff import Backoff

logger = logging.getLogger(__name__)

T = TypeVar("T")
Done = Awaitable[None] | None
"""Returned by a store: what the informer awaits before the next event, if anything."""


class Store(Protocol[T]):
    """Objects as an informer last saw them. Called in the event loop; does not block."""

    def listed(self, objects: list[T]) -> Done:
        """Everything that exists now; what is missing is gone."""
        ...

    def changed(self, item: T) -> Done:
        """Added or modified."""
        ...

    def deleted(self, item: T) -> Done:
        """Gone, or no longer matching the selector."""
        ...


class Informer(Generic[T]):
    """Keeps a store like what an API server has of one scope.

    `synced` is set after the first listing. `relisted` is called after each later one: events were missed before it.
    `contact` is called at each sign of life of the API server, `failed` after each failure, before a pause of 0.1 to
    2 seconds; by default failures are logged, but for outages.
    """

    def __init__(
        self,
        kube: Kube,
        scope: Scope[T],
        store: Store[T],
        *,
        relisted: Callable[[], None] = lambda: None,
        contact: Callable[[], None] = lambda: None,
        failed: Callable[[ApiError], None] | None = None,
        random: Callable[[], float] = randomness.random,
    ) -> None:
        self._kube = kube
        self._scope = scope
        self._store = store
        self._relisted = relisted
        self._contact = contact
        self._failed = failed or self._log
        self._backoff = Backoff(random, base=0.1, cap=2.0)
        self._version: str | None = None
        self._said = ""
        self.synced = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Informer {self._scope} version={self._version} synced={self.synced.is_set()}>"

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                await self._list_and_watch()
            except Gone:
                self._version = None
            except ApiError as error:
                self._failed(error)
            # after a stream that ended well too: an API server that ends each at once is not asked without a pause
            await asyncio.sleep(self._backoff.after(0.0))

    async def _list_and_watch(self) -> None:
        if self._version is None:
            objects, version = await self._kube.list(self._scope)
            self._contact()
            await _done(self._store.listed(objects))
            self._version = version
            if self.synced.is_set():
                self._relisted()
            self.synced.set()
        async with aclosing(self._kube.watch(self._scope, self._version, self._contact)) as events:
            async for event in events:
                self._contact()
                self._backoff.failures, self._said = 0, ""
                self._version = event.version or self._version
                if event.object is not None:
                    tell = self._store.deleted if event.type == "DELETED" else self._store.changed
                    await _done(tell(event.object))

    def _log(self, error: ApiError) -> None:
        if str(error) != self._said and not isinstance(error, Unavailable):
            self._said = str(error)
            level = logging.ERROR if isinstance(error, Forbidden) else logging.WARNING
            logger.log(level, "tried again: %s", error)


async def _done(work: Done) -> None:
    if work is not None:
        await work
