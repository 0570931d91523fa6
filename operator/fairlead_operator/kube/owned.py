"""Stores the objects that run servers, and applies manifests only where an object differs.

An object is up to date if the wanted manifest equals the last applied manifest, and the object is unchanged since that
apply; then no request is sent. Fingerprints of the whole object, just after the apply and now, show whether it changed.
The object is not compared with its manifest, because the API server adds and rewrites values.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from fairlead_api.meta import ServerKey
from fairlead_kube.client import Json, Kube
from fairlead_kube.errors import Invalid, NotFound
from fairlead_kube.resources import MCP_SERVERS, WORKLOAD_KINDS, Kind
from fairlead_kube.store import ObjectStore
from fairlead_operator.kube.drift import DriftRepairs, Writers, WriteTarget

logger = logging.getLogger(__name__)

_UNSTABLE_METADATA: Final = {"resourceVersion", "generation", "managedFields"}
_UNSTABLE_ANNOTATIONS: Final = {"deployment.kubernetes.io/revision"}
_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class ObservedObject:
    """The relevant content of an object as last seen."""

    uid: str
    owner: ServerKey | None
    owner_uid: str
    """UID of the controlling McpServer. For an object that no McpServer controls, it is empty and `owner` is None."""
    fingerprint: str
    """Hash of everything except the status and bookkeeping metadata."""
    generation: int
    status_json: bytes
    """The status as JSON, which takes a fifth of the memory of a dict."""
    writers: Writers = field(default=Writers(), compare=False)

    @property
    def status(self) -> Json:
        status: Json = msgspec.json.decode(self.status_json)
        return status


class _LastApply(NamedTuple):
    """The last apply of an object."""

    manifest_hash: str
    """Hash of the manifest."""
    fingerprint: str
    """Fingerprint of the object after the apply."""
    own_at: str
    """Time of the apply by the API server (RFC 3339)."""


class ForeignObject(Exception):
    """An object with the server's name exists but has another owner; it is not changed."""


def fingerprint(item: Json) -> str:
    """Hash of an object without its status and bookkeeping metadata: changes only when a client changes the object."""
    metadata = {k: v for k, v in item.get("metadata", {}).items() if k not in _UNSTABLE_METADATA}
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {k: v for k, v in annotations.items() if k not in _UNSTABLE_ANNOTATIONS}
    content = {k: v for k, v in item.items() if k not in {"kind", "apiVersion", "metadata", "status"}}
    return hashlib.sha256(_encode([metadata, content])).hexdigest()


def has_surplus(manifest_value: Any, observed_value: Any) -> bool:
    """Whether any list in the observed value, at any depth, has more items than the manifest's corresponding list."""
    if isinstance(manifest_value, Mapping) and isinstance(observed_value, Mapping):
        return any(has_surplus(value, observed_value.get(member)) for member, value in manifest_value.items())
    if isinstance(manifest_value, list) and isinstance(observed_value, list):
        pairs = zip(manifest_value, observed_value, strict=False)
        return len(observed_value) > len(manifest_value) or any(has_surplus(item, other) for item, other in pairs)
    return False


def owner_of(item: Json) -> tuple[ServerKey, str] | None:
    """Key and UID of the McpServer that controls an object; None if no McpServer does."""
    metadata = item.get("metadata", {})
    for reference in metadata.get("ownerReferences") or ():
        if reference.get("controller") and reference.get("kind") == MCP_SERVERS.kind:
            return ServerKey(metadata.get("namespace", ""), reference["name"]), reference["uid"]
    return None


def _observe(item: Json) -> ObservedObject:
    """The relevant content of an API object."""
    metadata, owner = item["metadata"], owner_of(item)
    return ObservedObject(
        uid=metadata["uid"],
        owner=owner[0] if owner else None,
        owner_uid=owner[1] if owner else "",
        fingerprint=fingerprint(item),
        generation=metadata.get("generation", 0),
        status_json=_encode(item.get("status") or {}),
        writers=Writers.of(item),
    )


class OwnedObjects:
    """Objects of all servers in one store per kind; each object has its server's name.

    `enqueue` is called with each server whose objects changed. `drift` limits how often changes by other clients are
    repaired.
    """

    def __init__(
        self,
        kube: Kube,
        enqueue: Callable[[ServerKey], None],
        kinds: Sequence[Kind] = WORKLOAD_KINDS,
        drift: DriftRepairs | None = None,
    ) -> None:
        self._kube = kube
        self._enqueue = enqueue
        self._drift = drift or DriftRepairs()
        self.stores: dict[Kind, ObjectStore[ObservedObject]] = {
            kind: ObjectStore(_observe, partial(self._on_change, kind)) for kind in kinds
        }
        self._applied_objects: dict[tuple[Kind, ServerKey], _LastApply] = {}

    def __repr__(self) -> str:
        return f"<Owned {self.stores} applied={len(self._applied_objects)}>"

    def last_seen(self, kind: Kind, namespace: str, name: str) -> ObservedObject | None:
        """The object as last seen; None if it does not exist."""
        return self.stores[kind].get(ServerKey(namespace, name))

    async def apply(self, kind: Kind, manifest: Json, owner_uid: str) -> None:
        """Apply the manifest, unless the object is up to date, or it is too early for another repair.

        Raises ForeignObject if `owner_uid` does not control the existing object, ApiError if the API server refuses.
        """
        namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
        store, key = self.stores[kind], ServerKey(namespace, name)
        manifest_hash = hashlib.sha256(_encode(manifest)).hexdigest()
        observed_object, last_apply = store.get(key), self._applied_objects.get((kind, key))
        is_repetition = last_apply is not None and last_apply.manifest_hash == manifest_hash
        if (
            is_repetition
            and last_apply is not None
            and observed_object is not None
            and last_apply.fingerprint == observed_object.fingerprint
        ):
            return
        target, wake = WriteTarget(kind, namespace, name), partial(self._enqueue, key)
        if is_repetition and self._drift.postpone(target, wake):
            return
        if observed_object is None or observed_object.owner_uid != owner_uid:
            await self._check_unclaimed(kind, namespace, name, owner_uid)
        answer = await self._apply_exactly(kind, manifest, exists=observed_object is not None)
        store.put(answer)
        result = _observe(answer)
        self._applied_objects[kind, key] = _LastApply(manifest_hash, result.fingerprint, result.writers.own_at)
        if observed_object is not None and observed_object.fingerprint == result.fingerprint:
            return  # other clients only added members, which the apply kept: this was not a repair
        logger.info("%s %s/%s %s", kind.kind, namespace, name, "applied" if observed_object else "created or adopted")
        if is_repetition and last_apply is not None:
            manager = (
                observed_object.writers.last_manager_after(last_apply.own_at) if observed_object is not None else ""
            )
            self._drift.count_repair(target, manager, wake, owner=key)

    async def remove(self, kind: Kind, namespace: str, name: str, owner_uid: str) -> None:
        """Delete an object that is no longer wanted; no-op if it does not exist or `owner_uid` does not control it."""
        observed_object = self.last_seen(kind, namespace, name)
        if observed_object is None or observed_object.owner_uid != owner_uid:
            return
        with contextlib.suppress(NotFound):
            await self._kube.delete(kind, namespace, name, uid=observed_object.uid)
        self.stores[kind].forget(ServerKey(namespace, name))
        self._forget(kind, ServerKey(namespace, name))

    def forget(self, server: ServerKey) -> None:
        """Forget the objects of a deleted server; the garbage collector deletes them."""
        for kind in self.stores:
            self._forget(kind, server)

    def _forget(self, kind: Kind, key: ServerKey) -> None:
        self._applied_objects.pop((kind, key), None)
        self._drift.forget([WriteTarget(kind, key.namespace, key.name)])

    async def _apply_exactly(self, kind: Kind, manifest: Json, *, exists: bool) -> Json:
        """Apply the manifest. If another client added items to a list, replace the list with a merge patch, because a
        server-side apply would keep these items, and apply again.

        Members that other clients added to objects (an annotation, an autoscaler's `replicas`) are kept.
        """
        namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
        try:
            answer = await self._kube.apply(kind, namespace, manifest)
        except Invalid:
            # Server-side apply identifies a port by its number: a port with a changed number is a second item, and has
            # the same name as the old port, which is invalid.
            if not exists:
                raise
        else:
            if not has_surplus(manifest, answer):
                return answer
        await self._kube.merge(kind, namespace, name, manifest)
        return await self._kube.apply(kind, namespace, manifest)

    async def _check_unclaimed(self, kind: Kind, namespace: str, name: str, owner_uid: str) -> None:
        """Raise ForeignObject if an object of that name exists and does not belong to the server. Queries the API
        server, because the store does not contain objects without Fairlead's label.
        """
        try:
            item = await self._kube.get(kind, namespace, name)
        except NotFound:
            return
        owner = owner_of(item)
        if owner is None or owner[1] != owner_uid:
            raise ForeignObject(f"{kind.kind} {namespace}/{name} exists and does not belong to this McpServer")

    def _on_change(
        self, kind: Kind, key: ServerKey, before: ObservedObject | None, after: ObservedObject | None
    ) -> None:
        status_changed = before is not None and after is not None and before.status_json != after.status_json
        target = WriteTarget(kind, key.namespace, key.name)
        if not status_changed and self._drift.postpone(target, partial(self._enqueue, key)):
            return
        for owner in {seen.owner for seen in (before, after) if seen is not None and seen.owner is not None}:
            self._enqueue(owner)
