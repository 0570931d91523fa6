"""Reads OpenAPI documents from files on this machine, and from ConfigMaps in manifests."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fairlead_api.documents.base import sha256
from fairlead_api.meta import ServerKey
from fairlead_openapi.compiling.reading import MAX_DOCUMENT_BYTES
from fairlead_operator.local.inventory import Inventory
from fairlead_operator.openapi.api_source import ApiSource, ConfigMapLocation, DocumentLocation, FileLocation
from fairlead_operator.openapi.document_content import DocumentUnusable, decompress, document_key


class LocalDocuments:
    """Documents in files and in the inventory's ConfigMaps."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._revisions: dict[ServerKey, str] = {}
        """Revision of each server's document at the last call of `find_changed`."""

    async def read(self, location: DocumentLocation) -> bytes:
        """The document at a location. Raises DocumentUnusable."""
        if not isinstance(location, ConfigMapLocation):
            return await asyncio.to_thread(_read_file, Path(str(location)))
        config_map = self._inventory.contents.config_maps.get((location.namespace, location.name))
        if config_map is None:
            raise DocumentUnusable(f"no manifest declares a ConfigMap {location.name} in the server's namespace")
        return config_map.data[document_key(location, config_map.data)].encode()

    def find_changed(self) -> list[ServerKey]:
        """Servers whose documents have changed since the last call."""
        old_revisions = self._revisions
        servers = self._inventory.contents.servers.items()
        sources = {
            key: ApiSource.of(declaration.server) for key, declaration in servers if declaration.server.spec.openapi
        }
        self._revisions = {key: self.revision(source.location) for key, source in sources.items() if source is not None}
        return [key for key, revision in self._revisions.items() if old_revisions.get(key, revision) != revision]

    def revision(self, location: DocumentLocation) -> str:
        """Revision of a document that is not at a URL, which changes with its content; empty if it is missing."""
        if isinstance(location, ConfigMapLocation):
            config_map = self._inventory.contents.config_maps.get((location.namespace, location.name))
            return "" if config_map is None else sha256(*(text.encode() for text in config_map.data.values()))
        try:
            stat = Path(str(location)).stat() if isinstance(location, FileLocation) else None
        except OSError:
            return ""
        return "" if stat is None else f"{stat.st_mtime_ns}-{stat.st_size}"


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise DocumentUnusable(f"the OpenAPI document {path} cannot be read: {error.strerror}") from error
    return decompress(data, path)
