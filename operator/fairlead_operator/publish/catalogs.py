"""Reads and publishes catalogs: a catalog is written when its content changes, and withdrawn with its server."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from fairlead_api.documents.base import sha256
from fairlead_api.documents.catalog import CATALOG, Catalog, content, same_content
from fairlead_api.documents.codec import UnreadableDocument, catalog_name, decode, encode
from fairlead_api.documents.pins import PINS
from fairlead_api.documents.store import pack
from fairlead_api.meta import LABEL_DOCUMENT, LABEL_NAME, LABEL_NAMESPACE, LABEL_UID, ServerKey, label_value
from fairlead_operator.off_loop import off_loop
from fairlead_operator.ports import Documents
from fairlead_operator.server.catalog_changes import ToolChanges, tool_changes

logger = logging.getLogger(__name__)


def labels_for(key: ServerKey, uid: str) -> dict[str, str]:
    """Labels that identify a document's server, in place of an owner reference, which cannot cross namespaces."""
    return {
        LABEL_NAMESPACE: label_value(key.namespace),
        LABEL_NAME: label_value(key.name),
        LABEL_UID: label_value(uid),
    }


class _PublishedVersion(NamedTuple):
    """Digest and time of a published catalog. Not the catalog itself: a thousand would take ten megabytes."""

    digest: str
    updated_at: str


class _RetainedCatalog(NamedTuple):
    """Compressed copy of a stored catalog whose server has not answered this operator yet."""

    hash: str
    updated_at: str
    data: bytes


class Catalogs:
    """The catalogs of one installation. `now` returns the time for changed catalogs. `on_changes` receives the changes
    of tools in each published catalog.
    """

    def __init__(
        self,
        documents: Documents,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        on_changes: Callable[[ToolChanges], None] = lambda changes: None,
    ) -> None:
        self._documents = documents
        self._now = now
        self._on_changes = on_changes
        self._last_versions: dict[ServerKey, _PublishedVersion] = {}
        self._retained_catalogs: dict[ServerKey, _RetainedCatalog] = {}

    async def read(self, key: ServerKey, uid: str) -> Catalog | None:
        """Published catalog of the server with this UID; None if it is missing, unreadable, or of an earlier server."""
        data = await self._documents.read(catalog_name(key))
        if data is None:
            return None
        try:
            catalog = await off_loop(len(data), decode, data)
        except UnreadableDocument as error:
            logger.warning("the catalog of %s cannot be read and will be replaced: %s", key, error)
            return None
        if not isinstance(catalog, Catalog) or catalog.uid != uid or catalog.key != key:
            return None
        return catalog

    def retain(self, catalog: Catalog) -> None:
        """Store a copy of a catalog whose server has not answered yet, to restore it if somebody deletes it."""
        copy = self._retained_catalogs.get(catalog.key)
        if copy is None or (copy.hash, copy.updated_at) != (catalog.hash, catalog.updated_at):
            data = zlib.compress(encode(catalog), level=1)
            self._retained_catalogs[catalog.key] = _RetainedCatalog(catalog.hash, catalog.updated_at, data)

    def retained_copy(self, key: ServerKey, uid: str) -> Catalog | None:
        """The copy of the server's catalog; None if there is none, or it is of an earlier server with this name."""
        copy = self._retained_catalogs.get(key)
        catalog = None if copy is None else decode(zlib.decompress(copy.data))
        return catalog if isinstance(catalog, Catalog) and catalog.uid == uid else None

    def release(self, key: ServerKey) -> None:
        """Drop the copy of the server's catalog, because the server has answered."""
        self._retained_catalogs.pop(key, None)

    async def names(self) -> Collection[str]:
        """Names of the stored documents."""
        return await self._documents.heads()

    async def orphans(self, existing_servers: Collection[tuple[ServerKey, str]]) -> list[Catalog]:
        """Stored catalogs of servers whose key and UID are not in `existing_servers`. Raises PLATFORM_ERRORS."""
        catalogs = []
        for name in await self._orphaned_documents(existing_servers, CATALOG):
            data = await self._documents.read(name)
            try:
                document = None if data is None else decode(data)
            except UnreadableDocument:
                continue
            if isinstance(document, Catalog) and catalog_name(document.key) == name:
                catalogs.append(document)
        return catalogs

    async def publish(self, catalog: Catalog, stored_catalog: Catalog | None) -> Catalog:
        """Publish `catalog` if it differs from `stored_catalog`, the result of `read`; return it as published."""
        has_changed = (
            stored_catalog is None
            or not same_content(stored_catalog, catalog)
            or stored_catalog.refreshed != catalog.refreshed
        )
        encoded_content = encode(content(catalog))
        digest = await off_loop(len(encoded_content), sha256, encoded_content)
        catalog = msgspec.structs.replace(catalog, updated_at=self._updated_at(catalog, digest, stored_catalog))
        name, labels = catalog_name(catalog.key), labels_for(catalog.key, catalog.uid)
        document = encode(catalog)
        blobs = await off_loop(len(document), pack, name, CATALOG, document, labels)
        self._last_versions[catalog.key] = _PublishedVersion(digest, catalog.updated_at)
        if not has_changed and await self._documents.holds(blobs):
            return catalog
        await self._documents.publish(blobs)
        if has_changed:
            self._on_changes(tool_changes(stored_catalog, catalog))
        logger.info(
            "catalog of %s published: %d tools%s",
            catalog.key,
            len(catalog.tools),
            "" if catalog.online else ", offline",
        )
        return catalog

    def _updated_at(self, catalog: Catalog, digest: str, stored_catalog: Catalog | None) -> str:
        """Time at which this content was first published. It stays the same when a document is published again because
        somebody deleted or edited it.
        """
        if stored_catalog is not None and same_content(stored_catalog, catalog):
            return stored_catalog.updated_at
        last_version = self._last_versions.get(catalog.key)
        if last_version is not None and last_version.digest == digest:
            return last_version.updated_at
        return self._now().isoformat(timespec="milliseconds")

    async def withdraw(self, key: ServerKey) -> bool:
        """Withdraw a server's catalog; return whether it existed."""
        self._last_versions.pop(key, None)
        self.release(key)
        name = catalog_name(key)
        if name not in await self._documents.heads():
            return False
        await self._documents.withdraw(name)
        logger.info("catalog of %s withdrawn", key)
        return True

    async def sweep(self, existing_servers: Collection[tuple[ServerKey, str]]) -> list[str]:
        """Withdraw catalogs and pins whose server, by key and UID, no longer exists, and delete orphaned parts.

        Returns the names of the withdrawn documents.
        """
        withdrawn_names = []
        for name, labels in (await self._orphaned_documents(existing_servers, CATALOG, PINS)).items():
            heads = await self._documents.heads()
            if heads.get(name) == labels:  # the document was not replaced while others were withdrawn
                await self._documents.withdraw(name)
                logger.info("document %s withdrawn: its server was deleted", name)
                withdrawn_names.append(name)
        await self._documents.tidy()
        return withdrawn_names

    async def _orphaned_documents(
        self, existing_servers: Collection[tuple[ServerKey, str]], *kinds: str
    ) -> Mapping[str, Mapping[str, str]]:
        """Names and labels of the stored documents of these kinds whose server, by key and UID, no longer exists."""
        identities = {_identity(labels_for(key, uid)) for key, uid in existing_servers}
        return {
            name: labels
            for name, labels in (await self._documents.heads()).items()
            if labels.get(LABEL_DOCUMENT) in kinds and _identity(labels) not in identities
        }


def _identity(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Values of the labels that identify a document's server."""
    return tuple(labels.get(label, "") for label in (LABEL_NAMESPACE, LABEL_NAME, LABEL_UID))
