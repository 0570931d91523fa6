"""Lists a kind once and then follows its changes, through outages, without losing a deletion.

The adapters that keep a picture of owned objects (`owned`, `documents`, `credentials`) each run one. Kopf is not used
for these: its watches take no label selector, so a busy cluster's every Deployment and every Secret would pass through
this process; and what is deleted while its connection is down is never told. Here each listing is complete, and what
it no longer holds is gone.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from fairlead_kube.client import Json, Kube
from fairlead_kube.errors import ApiError, Forbidden, Gone, Unavailable
from fairlead_kube.resources import Kind

logger = logging.getLogger(__name__)


class Picture(Protocol):
    """What a follower paints: told in the event loop, may not block."""

    def listed(self, objects: list[Json]) -> None:
        """Everything that exists now; what is missing is gone."""
        ...

    def changed(self, item: Json) -> None:
        """Added or modified."""
        ...

    def deleted(self, item: Json) -> None:
        """Gone, or no longer matching the selector."""
        ...


@dataclass(frozen=True)
class Scope:
    """What is followed. `namespace` None = all."""

    kind: Kind
    namespace: str | None = None
    selector: str = ""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.kind.plural}{where}"


class Follower:
    """Follows one scope. `synced` is set after the first listing; `relisted` is called after each later one, which
    means that there was a gap."""

    def __init__(
        self,
        kube: Kube,
        scope: Scope,
        picture: Picture,
        *,
        relisted: Callable[[], None] | None = None,
        backoff: tuple[float, float] = (0.1, 2.0),
        rng: random.Random | None = None,
    ) -> None:
        self._kube = kube
        self._scope = scope
        self._picture = picture
        self._relisted = relisted
        self._backoff = backoff
        self._rng = rng or random.Random()
        self._version: str | None = None
        self._trouble = 0
        self.synced = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Follower {self._scope} version={self._version} synced={self.synced.is_set()}>"

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                await self._follow()
            except Gone:
                self._version = None
            except ApiError as error:
                await self._pause(error)
            else:
                self._trouble = 0

    async def _follow(self) -> None:
        scope = self._scope
        if self._version is None:
            objects, version = await self._kube.list(scope.kind, scope.namespace, selector=scope.selector)
            self._picture.listed(objects)
            self._version = version
            self._trouble = 0
            if self.synced.is_set() and self._relisted is not None:
                self._relisted()
            self.synced.set()
        events = self._kube.watch(scope.kind, scope.namespace, selector=scope.selector, resource_version=self._version)
        async for event in events:
            self._trouble = 0
            self._version = event.object.get("metadata", {}).get("resourceVersion", self._version)
            if event.type == "DELETED":
                self._picture.deleted(event.object)
            elif event.type in {"ADDED", "MODIFIED"}:
                self._picture.changed(event.object)

    async def _pause(self, error: ApiError) -> None:
        first, limit = self._backoff
        self._trouble += 1
        if self._trouble == 1 and not isinstance(error, Unavailable):
            level = logging.ERROR if isinstance(error, Forbidden) else logging.WARNING
            logger.log(level, "cannot follow %s: %s", self._scope, error)
        delay = min(limit, first * 2.0 ** min(self._trouble - 1, 16))
        await asyncio.sleep(delay * (0.8 + 0.4 * self._rng.random()))
