"""Detects changes of the ConfigMaps that contain OpenAPI documents, by polling their metadata.

A watch would need the right to list all ConfigMaps of tenants. The operator only has the right to get single
ConfigMaps.
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
"""Minimum seconds between two requests about the same ConfigMap."""
REQUEST_SECONDS: Final = 0.1
"""Minimum seconds between any two requests."""


class _Reference(msgspec.Struct):
    name: str


class _Api(msgspec.Struct, rename="camel"):
    config_map_ref: _Reference | None = None


class _Spec(msgspec.Struct):
    openapi: _Api | None = None


class _DocumentReference(msgspec.Struct):
    """The part of an McpServer's JSON that names the ConfigMap of its document."""

    spec: _Spec


class ChangedDocuments:
    """Calls `on_change` with each server whose ConfigMap was created, changed or deleted since the last round."""

    def __init__(self, kube: Kube, servers: DeclaredServers, on_change: Callable[[ServerKey], None]) -> None:
        self._kube = kube
        self._servers = servers
        self._on_change = on_change
        self._versions: dict[ServerKey, str] = {}
        """Version of each ConfigMap in the last round; empty for one that does not exist."""

    async def run(self) -> None:
        """Check all ConfigMaps repeatedly until cancelled."""
        while True:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._check_all())
                group.create_task(asyncio.sleep(ROUND_SECONDS))

    async def _check_all(self) -> None:
        servers_by_config_map = self._servers_by_config_map()
        self._versions = {
            reference: version for reference, version in self._versions.items() if reference in servers_by_config_map
        }
        for reference, keys in servers_by_config_map.items():
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
                    self._on_change(key)
            await asyncio.sleep(REQUEST_SECONDS)

    def _servers_by_config_map(self) -> dict[ServerKey, list[ServerKey]]:
        """The servers whose spec refers to a ConfigMap, by the ConfigMap's namespace and name."""
        servers_by_config_map: dict[ServerKey, list[ServerKey]] = {}
        for key in self._servers:
            text = self._servers.get(key)
            if text is None or b'"configMapRef"' not in text:
                continue
            try:
                api = msgspec.json.decode(text, type=_DocumentReference).spec.openapi
            except msgspec.DecodeError:
                continue
            if api is not None and api.config_map_ref is not None:
                servers_by_config_map.setdefault(ServerKey(key.namespace, api.config_map_ref.name), []).append(key)
        return servers_by_config_map
