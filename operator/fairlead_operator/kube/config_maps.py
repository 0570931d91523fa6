"""ConfigMaps of the servers' namespaces: hashes of those in the environment of pods, and changes of all that a spec
names, found by polling their metadata.

A watch would need the right to list all ConfigMaps of tenants. The operator only has the right to get single
ConfigMaps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from fairlead_api.documents.base import sha256
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_kube.client import Kube
from fairlead_kube.errors import ApiError, Forbidden, NotFound
from fairlead_kube.resources import CONFIG_MAPS
from fairlead_operator.kube.declared_resources import DeclaredServers
from fairlead_operator.server.secret_references import environment_config_maps

ROUND_SECONDS: Final = 5.0
"""Minimum seconds between two requests about the same ConfigMap."""
REQUEST_SECONDS: Final = 0.1
"""Minimum seconds between any two requests."""


class _Reference(msgspec.Struct):
    name: str


class _Api(msgspec.Struct, rename="camel"):
    config_map_ref: _Reference | None = None


class _Spec(msgspec.Struct):
    """The part of an McpServer's spec that names the ConfigMap of its document."""

    openapi: _Api | None = None


async def environment_revision(kube: Kube, server: McpServer) -> str:
    """Hash of the contents of all ConfigMaps in the environment of a server's pods; empty without such ConfigMaps, and
    where they may not be read. Raises ApiError.
    """
    contents = []
    for name in environment_config_maps(server.spec.to_wire()):
        try:
            config_map = await kube.get(CONFIG_MAPS, server.metadata.namespace, name)
        except (NotFound, Forbidden):
            continue
        values = [config_map.get("data") or {}, config_map.get("binaryData") or {}]
        contents.append(msgspec.json.encode([name, *values], order="sorted"))
    return sha256(*contents)[:16] if contents else ""


class ServersOfConfigMap(NamedTuple):
    """The servers that name one ConfigMap."""

    by_document: list[ServerKey]
    """Servers whose OpenAPI document it contains."""
    by_environment: list[ServerKey]
    """Servers whose pods have values of it in their environment."""


class ChangedConfigMaps:
    """Calls `document_changed` and `environment_changed` with each server whose ConfigMap was created, changed or
    deleted since the last round.
    """

    def __init__(
        self,
        kube: Kube,
        servers: DeclaredServers,
        document_changed: Callable[[ServerKey], None],
        environment_changed: Callable[[ServerKey], None],
    ) -> None:
        self._kube = kube
        self._servers = servers
        self._document_changed = document_changed
        self._environment_changed = environment_changed
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
            config_map: version for config_map, version in self._versions.items() if config_map in servers_by_config_map
        }
        for config_map, servers in servers_by_config_map.items():
            try:
                metadata = await self._kube.metadata(CONFIG_MAPS, config_map.namespace, config_map.name)
                version = f"{metadata.get('uid', '')}:{metadata.get('resourceVersion', '')}"
            except NotFound:
                version = ""
            except ApiError:
                continue  # the reconciliation and the discovery report it
            if self._versions.setdefault(config_map, version) != version:
                self._versions[config_map] = version
                for key in servers.by_document:
                    self._document_changed(key)
                for key in servers.by_environment:
                    self._environment_changed(key)
            await asyncio.sleep(REQUEST_SECONDS)

    def _servers_by_config_map(self) -> dict[ServerKey, ServersOfConfigMap]:
        """The servers that name a ConfigMap, by the ConfigMap's namespace and name."""
        servers_by_config_map: dict[ServerKey, ServersOfConfigMap] = {}

        def servers_of(namespace: str, name: str) -> ServersOfConfigMap:
            return servers_by_config_map.setdefault(ServerKey(namespace, name), ServersOfConfigMap([], []))

        for key in self._servers:
            text = self._servers.get(key)
            if text is None or not (b'"configMapRef"' in text or b'"configMapKeyRef"' in text):
                continue
            spec = msgspec.json.decode(text).get("spec")
            try:
                api = msgspec.convert(spec, _Spec).openapi
                names = environment_config_maps(spec)
            except msgspec.ValidationError:
                continue
            if api is not None and api.config_map_ref is not None:
                servers_of(key.namespace, api.config_map_ref.name).by_document.append(key)
            for name in names:
                servers_of(key.namespace, name).by_environment.append(key)
        return servers_by_config_map
