"""Stores documents as ConfigMaps in the release's namespace: implements `ports.Documents`.

The content of one ConfigMap is called a blob. A document is a blob (the head); if it is too large for one ConfigMap,
the head names further blobs (the parts). An informer keeps every blob in memory, so that reading a published document
needs no request, and a ConfigMap that somebody edits or deletes is noticed at once. A catalog is not owned by its
McpServer, because Kubernetes does not allow owners in another namespace; all documents may be owned by the operator's
ServiceAccount (`service_account`). Every write names the resourceVersion that it replaces, so that the API server
refuses a late write of a former leader.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import logging
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from fairlead_api.documents.store import Blob, DocumentAssembler, part_names
from fairlead_api.meta import ANNOTATION_WITHDRAWN, LABEL_PART, ServerKey
from fairlead_kube.client import Json, Kube
from fairlead_kube.errors import NotFound
from fairlead_kube.resources import CONFIG_MAPS
from fairlead_kube.store import ObjectStore
from fairlead_operator.kube.drift import DriftRepairs, Writers, WriteTarget
from fairlead_operator.off_loop import off_loop

logger = logging.getLogger(__name__)


def blob_from(config_map: Json) -> Blob:
    """Blob of a ConfigMap; `binaryData` that is not base64 becomes empty, which fails the document's hash check."""
    metadata = config_map["metadata"]
    return Blob(
        name=metadata["name"],
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        data=config_map.get("data") or {},
        binary={key: _decode_base64(value) for key, value in (config_map.get("binaryData") or {}).items()},
    )


class _Values(msgspec.Struct):
    """The values of a ConfigMap: its text and its binary data, by key."""

    data: dict[str, str]
    binary: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class PackedBlob:
    """A blob with compressed values, to save memory: values are rarely read."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    parts: tuple[str, ...]
    """Names of the parts that a head refers to."""
    values: bytes
    """Compressed JSON of the ConfigMap's `data` and `binaryData`."""
    writers: Writers = field(default=Writers(), compare=False)
    """The last field managers of the ConfigMap."""

    @classmethod
    def from_object(cls, config_map: Json) -> PackedBlob:
        blob = blob_from(config_map)
        values = zlib.compress(msgspec.json.encode(_Values(blob.data, blob.binary)), level=1)
        parts = () if blob.is_part else part_names(blob)
        return cls(blob.name, blob.labels, blob.annotations, parts, values, Writers.of(config_map))

    @property
    def is_part(self) -> bool:
        return self.labels.get(LABEL_PART) == "true"

    def unpack(self) -> Blob:
        """The blob as it was stored."""
        values = msgspec.json.decode(zlib.decompress(self.values), type=_Values)
        return Blob(self.name, dict(self.labels), dict(self.annotations), values.data, values.binary)


def config_map_for(blob: Blob, namespace: str) -> Json:
    """The ConfigMap manifest of a blob."""
    manifest: dict[str, Any] = {
        "metadata": {
            "name": blob.name,
            "namespace": namespace,
            "labels": blob.labels,
            "annotations": blob.annotations,
        }
    }
    if blob.data:
        manifest["data"] = blob.data
    if blob.binary:
        manifest["binaryData"] = {key: base64.b64encode(value).decode() for key, value in blob.binary.items()}
    return manifest


def holds(stored_blob: Blob, new_blob: Blob) -> bool:
    """Whether a stored blob equals another blob, apart from labels and annotations that other clients added."""
    return (
        stored_blob.data == new_blob.data
        and stored_blob.binary == new_blob.binary
        and new_blob.labels.items() <= stored_blob.labels.items()
        and new_blob.annotations.items() <= stored_blob.annotations.items()
    )


class KubeDocuments:
    """The documents of one release. `on_foreign_change(name, labels)` is called for each document that another client
    changed or deleted.
    """

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        on_foreign_change: Callable[[str, Mapping[str, str]], None],
        owners: Sequence[Json] = (),
        drift: DriftRepairs | None = None,
    ) -> None:
        self._kube = kube
        self._drift = drift or DriftRepairs()
        self._namespace = namespace
        self._on_foreign_change = on_foreign_change
        self._owners = list(owners)
        self.store: ObjectStore[PackedBlob] = ObjectStore(PackedBlob.from_object, self._on_change)
        self._heads: dict[str, Mapping[str, str]] = {}
        """Labels of each head, by its name."""
        self._running_writes: Counter[str] = Counter()
        """Number of running writes per blob."""
        self._running_deletions: dict[str, asyncio.Event] = {}
        """Events of the parts that `tidy` is deleting; each is set after the deletion."""

    def __repr__(self) -> str:
        return f"<KubeDocuments namespace={self._namespace} blobs={len(self.store)}>"

    async def heads(self) -> Mapping[str, Mapping[str, str]]:
        return self._heads

    async def read(self, name: str) -> bytes | None:
        head = self._blob(name)
        if head is None or head.is_part:
            return None
        parts = (self._blob(part) for part in part_names(head))
        blobs = [head, *(part for part in parts if part is not None)]
        size = sum(len(value) for blob in blobs for value in blob.binary.values())
        return await off_loop(size, _assemble, name, blobs)

    async def holds(self, blobs: list[Blob]) -> bool:
        return all((stored := self._blob(blob.name)) is not None and holds(stored, blob) for blob in blobs)

    async def publish(self, blobs: list[Blob]) -> None:
        head = blobs[-1]
        parts_before = self._parts(head.name)
        names = {blob.name for blob in blobs}
        self._running_writes.update(names)
        try:
            for blob in blobs:
                await self._store(blob)
        finally:
            self._running_writes.subtract(names)
        for part in parts_before:
            if part not in names:
                await self._delete(part)

    async def withdraw(self, name: str) -> None:
        parts = self._parts(name)
        with contextlib.suppress(NotFound):
            mark = {"metadata": {"annotations": {ANNOTATION_WITHDRAWN: "true"}}}
            await self._kube.merge(CONFIG_MAPS, self._namespace, name, mark)
        for blob_name in (name, *parts):
            await self._delete(blob_name)

    async def tidy(self) -> None:
        for name in self._orphans():
            if name not in self._orphans():
                continue  # its document was published while another part was deleted
            logger.info("deleting the ConfigMap %s: its document was never completed, or was deleted", name)
            deleted = self._running_deletions[name] = asyncio.Event()
            try:
                await self._delete(name)
            finally:
                del self._running_deletions[name]
                deleted.set()

    def _orphans(self) -> list[str]:
        """Parts that no head names and that are not being written."""
        blobs = self.store.values()
        named_parts = {part for blob in blobs for part in blob.parts}
        parts = [blob.name for blob in blobs if blob.is_part]
        return [part for part in parts if part not in named_parts and self._running_writes[part] == 0]

    async def _store(self, blob: Blob) -> None:
        if (deleted := self._running_deletions.get(blob.name)) is not None:
            await deleted.wait()  # until then, the store still contains the part that is being deleted
        stored_blob = self._blob(blob.name)
        if stored_blob is not None and holds(stored_blob, blob):
            return
        packed_blob = self.store.get(self._key(blob.name))
        await self._drift.write(
            WriteTarget(CONFIG_MAPS, self._namespace, blob.name),
            msgspec.json.encode(blob, order="deterministic"),
            packed_blob.writers if packed_blob is not None else None,
            partial(self._on_foreign_change, blob.name, blob.labels),
            partial(self._put, blob, stored_blob),
        )

    async def _put(self, blob: Blob, stored_blob: Blob | None) -> Json:
        if stored_blob is not None:
            await self._delete_foreign_keys(stored_blob, blob)
        manifest = config_map_for(blob, self._namespace)
        if self._owners:
            manifest["metadata"]["ownerReferences"] = self._owners
        if version := self.store.version(self._key(blob.name)):
            manifest["metadata"]["resourceVersion"] = version
        answer = await self._kube.apply(CONFIG_MAPS, self._namespace, manifest)
        self.store.put(answer)
        self._update_head(blob.name)
        if not holds(blob_from(answer), blob):  # the ConfigMap was not in the store, and has keys of another client
            self._on_foreign_change(blob.name, blob.labels)
        return answer

    async def _delete_foreign_keys(self, stored_blob: Blob, new_blob: Blob) -> None:
        """Delete keys that another client added: a server-side apply would keep them, and a gateway could mistake their
        values for the document.
        """
        patch: Json = {
            field: {key: None for key in stored_keys if key not in new_keys}
            for field, stored_keys, new_keys in (
                ("data", stored_blob.data, new_blob.data),
                ("binaryData", stored_blob.binary, new_blob.binary),
            )
        }
        patch = {field: keys for field, keys in patch.items() if keys}
        if patch:
            patch["metadata"] = {"resourceVersion": self.store.version(self._key(stored_blob.name))}
            self.store.put(await self._kube.merge(CONFIG_MAPS, self._namespace, stored_blob.name, patch))

    async def _delete(self, name: str) -> None:
        with contextlib.suppress(NotFound):
            await self._kube.delete(CONFIG_MAPS, self._namespace, name)
        self.store.forget(self._key(name))
        self._drift.forget([WriteTarget(CONFIG_MAPS, self._namespace, name)])
        self._update_head(name)

    def _key(self, name: str) -> ServerKey:
        return ServerKey(self._namespace, name)

    def _blob(self, name: str) -> Blob | None:
        blob = self.store.get(self._key(name))
        return blob.unpack() if blob is not None else None

    def _parts(self, name: str) -> Sequence[str]:
        blob = self.store.get(self._key(name))
        return blob.parts if blob is not None else ()

    def _update_head(self, name: str) -> None:
        """Update the list of heads from the store."""
        blob = self.store.get(self._key(name))
        if blob is None or blob.is_part:
            self._heads.pop(name, None)
        else:
            self._heads[name] = blob.labels

    def _on_change(self, key: ServerKey, before: PackedBlob | None, after: PackedBlob | None) -> None:
        self._update_head(key.name)
        if after is None or before is None or not holds(after.unpack(), before.unpack()):
            blob = after or before
            restore = partial(self._on_foreign_change, key.name, blob.labels if blob is not None else {})
            if not self._drift.postpone(WriteTarget(CONFIG_MAPS, self._namespace, key.name), restore):
                restore()


def _decode_base64(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _assemble(name: str, blobs: Sequence[Blob]) -> bytes | None:
    """Assemble a document from its blobs; None if parts are missing or damaged."""
    assembler = DocumentAssembler()
    assembler.replace(blobs)
    return assembler.documents.get(name)
