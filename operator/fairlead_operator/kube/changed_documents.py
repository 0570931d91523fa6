"""Notices changes of the ConfigMaps that hold OpenAPI documents, by the version in their metadata.

A watch would need the right to list all ConfigMaps of tenants, which the operator does not have: it may only get the
ConfigMaps that it knows by name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from fairlead_api.meta import ServerKey
from fairlead_kube.client import Kube
from fairlead_kube.errors import ApiError, NotFound
from fairlead_kube.resources import CONFIG_MAPS
from fairlead_operator.kube.declared_resources import DeclaredServers

ROUND_SECONDS: Final = 5.0
"""Least seconds between two requests about the same ConfigMap."""
REQUEST_SECONDS: Final = 0.1
"""Least seconds between two requests about any ConfigMaps."""


class _Reference(msgspec.Struct):
    name: str


class _Api(msgspec.Struct, rename="camel"):
    config_map_ref: _Reference | None = None


class _Spec(msgspec.Struct):
    openapi: _Api | None = None


class _Referring(msgspec.Struct):
    """The part of an McpServer's JSON that names the ConfigMap of its document."""

    spec: _Spec


class ChangedDocuments:
    """Calls `changed` with each server whose ConfigMap was created, changed or deleted since the last round."""

    def __init__(self, kube: Kube, servers: DeclaredServers, changed: Callable[[ServerKey], None]) -> None:
        self._kube = kube
        self._servers = servers
        self._changed = changed
        self._versions: dict[ServerKey, str] = {}
        """Version of each ConfigMap in the last round; empty for one that does not exist."""

    async def run(self) -> None:
        """Look at all ConfigMaps again and again, until cancelled."""
        while True:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._look_at_all())
                group.create_task(asyncio.sleep(ROUND_SECONDS))

    async def _look_at_all(self) -> None:
        readers = self._readers()
        self._versions = {reference: version for reference, version in self._versions.items() if reference in readers}
        for reference, keys in readers.items():
            try:
                metadata = await self._kube.metadata(CONFIG_MAPS, reference.namespace, reference.name)
                version = f"{metadata.get('uid', '')}:{metadata.get('resourceVersion', '')}"
            except NotFound:
                version = ""
            except ApiError:
                continue  # the discovery reports it
            if self._versions.setdefault(reference, version) != version:
                self._versions[reference] = version
                for key in keys:
                    self._changed(key)
            await asyncio.sleep(REQUEST_SECONDS)

    def _readers(self) -> dict[ServerKey, list[ServerKey]]:
        """The servers of each ConfigMap, by its namespace and name."""
        readers: dict[ServerKey, list[ServerKey]] = {}
        for key in self._servers:
            text = self._servers.get(key)
            if text is None or b'"configMapRef"' not in text:
                continue
            try:
                api = msgspec.json.decode(text, type=_Referring).spec.openapi
            except msgspec.DecodeError:
                continue
            if api is not None and api.config_map_ref is not None:
                readers.setdefault(ServerKey(key.namespace, api.config_map_ref.name), []).append(key)
        return readers
