"""Store of the objects that run servers, and the apply that leaves alone what is already right.

An object is right when the wanted manifest is the one applied last, and what stands in the cluster is what stood there
after that apply: then nothing is sent. Compared are fingerprints of whole objects and not manifests with objects,
because the API server fills in and rewrites values.
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
class Seen:
    """An object as it stood when last looked at."""

    uid: str
    owner: ServerKey | None
    owner_uid: str
    """The McpServer that controls it; None and empty for somebody else's object."""
    fingerprint: str
    """Over everything but its status and bookkeeping."""
    generation: int
    status_json: bytes
    """Kept as JSON, which takes a fifth of the memory."""
    writers: Writers = field(default=Writers(), compare=False)

    @property
    def status(self) -> Json:
        status: Json = msgspec.json.decode(self.status_json)
        return status


class _Applied(NamedTuple):
    """An apply that was sent."""

    wanted: str
    """Hash of the manifest."""
    fingerprint: str
    """Fingerprint of the object afterwards."""
    own_at: str
    """When that was, as the API server says."""


class ForeignObject(Exception):
    """An object of the wanted name exists and belongs to somebody else; it is left alone."""


def fingerprint(item: Json) -> str:
    """Equal for two readings of an object that nobody changed in between, status aside."""
    metadata = {k: v for k, v in item.get("metadata", {}).items() if k not in _UNSTABLE_METADATA}
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {k: v for k, v in annotations.items() if k not in _UNSTABLE_ANNOTATIONS}
    content = {k: v for k, v in item.items() if k not in {"kind", "apiVersion", "metadata", "status"}}
    return hashlib.sha256(_encode([metadata, content])).hexdigest()


def has_surplus(wanted: Any, actual: Any) -> bool:
    """Whether a list in `actual` has more items than the one in `wanted`."""
    if isinstance(wanted, Mapping) and isinstance(actual, Mapping):
        return any(has_surplus(value, actual.get(member)) for member, value in wanted.items())
    if isinstance(wanted, list) and isinstance(actual, list):
        pairs = zip(wanted, actual, strict=False)
        return len(actual) > len(wanted) or any(has_surplus(item, other) for item, other in pairs)
    return False


def owner_of(item: Json) -> tuple[ServerKey, str] | None:
    """Key and uid of the McpServer that controls an object; None for somebody else's."""
    metadata = item.get("metadata", {})
    for reference in metadata.get("ownerReferences") or ():
        if reference.get("controller") and reference.get("kind") == MCP_SERVERS.kind:
            return ServerKey(metadata.get("namespace", ""), reference["name"]), reference["uid"]
    return None


def _observe(item: Json) -> Seen:
    metadata, owner = item["metadata"], owner_of(item)
    return Seen(
        uid=metadata["uid"],
        owner=owner[0] if owner else None,
        owner_uid=owner[1] if owner else "",
        fingerprint=fingerprint(item),
        generation=metadata.get("generation", 0),
        status_json=_encode(item.get("status") or {}),
        writers=Writers.of(item),
    )


class Owned:
    """Objects of all servers, each under its server's name, in a store for each of `kinds`. `enqueue` is called with
    each server whose objects changed. What others change is put back at the pace of `drift`.
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
        self.stores: dict[Kind, ObjectStore[Seen]] = {
            kind: ObjectStore(_observe, partial(self._on_change, kind)) for kind in kinds
        }
        self._applied: dict[tuple[Kind, ServerKey], _Applied] = {}

    def __repr__(self) -> str:
        return f"<Owned {self.stores} applied={len(self._applied)}>"

    def last_seen(self, kind: Kind, namespace: str, name: str) -> Seen | None:
        """The object as last seen."""
        return self.stores[kind].get(ServerKey(namespace, name))

    async def apply(self, kind: Kind, manifest: Json, owner_uid: str) -> None:
        """Make the object as the manifest says, unless it already is, or it is too early to put it back once more.

        Raises ForeignObject when one of that name is not controlled by `owner_uid`, ApiError when the API server
        refuses.
        """
        namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
        store, key = self.stores[kind], ServerKey(namespace, name)
        wanted = hashlib.sha256(_encode(manifest)).hexdigest()
        seen, applied = store.get(key), self._applied.get((kind, key))
        repeats = applied is not None and applied.wanted == wanted
        if repeats and applied is not None and seen is not None and applied.fingerprint == seen.fingerprint:
            return
        target, wake = WriteTarget(kind, namespace, name), partial(self._enqueue, key)
        if repeats and self._drift.held_back(target, wake):
            return
        if seen is None or seen.owner_uid != owner_uid:
            await self._claimable(kind, namespace, name, owner_uid)
        answer = await self._put_right(kind, manifest, exists=seen is not None)
        store.put(answer)
        after = _observe(answer)
        self._applied[kind, key] = _Applied(wanted, after.fingerprint, after.writers.own_at)
        if seen is not None and seen.fingerprint == after.fingerprint:
            return  # what others had added is left to them: nothing was undone
        logger.info("%s %s/%s %s", kind.kind, namespace, name, "applied" if seen else "created or adopted")
        if repeats and applied is not None:
            by = seen.writers.since(applied.own_at) if seen is not None else ""
            self._drift.count_repair(target, by, wake, owner=key)

    async def remove(self, kind: Kind, namespace: str, name: str, owner_uid: str) -> None:
        """Delete an object that is no longer wanted; fine when it is gone or somebody else's."""
        seen = self.last_seen(kind, namespace, name)
        if seen is None or seen.owner_uid != owner_uid:
            return
        with contextlib.suppress(NotFound):
            await self._kube.delete(kind, namespace, name, uid=seen.uid)
        self.stores[kind].forget(ServerKey(namespace, name))
        self._forget(kind, ServerKey(namespace, name))

    def forget(self, server: ServerKey) -> None:
        """Drop what is remembered of the objects of a server that is gone; they go by the garbage collector."""
        for kind in self.stores:
            self._forget(kind, server)

    def _forget(self, kind: Kind, key: ServerKey) -> None:
        self._applied.pop((kind, key), None)
        self._drift.forget([WriteTarget(kind, key.namespace, key.name)])

    async def _put_right(self, kind: Kind, manifest: Json, *, exists: bool) -> Json:
        """Apply; where somebody added to a list, put the list back as a whole first, which no apply does.

        Members that others added to objects (an annotation, an autoscaler's `replicas`) are left to them.
        """
        namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
        try:
            answer = await self._kube.apply(kind, namespace, manifest)
        except Invalid:
            # A port that was renumbered by hand is another item to an apply, and its name then stands there twice.
            if not exists:
                raise
        else:
            if not has_surplus(manifest, answer):
                return answer
        await self._kube.merge(kind, namespace, name, manifest)
        return await self._kube.apply(kind, namespace, manifest)

    async def _claimable(self, kind: Kind, namespace: str, name: str, owner_uid: str) -> None:
        """The store has labelled objects only, so what it lacks may still exist."""
        try:
            item = await self._kube.get(kind, namespace, name)
        except NotFound:
            return
        owner = owner_of(item)
        if owner is None or owner[1] != owner_uid:
            raise ForeignObject(f"{kind.kind} {namespace}/{name} exists and does not belong to this McpServer")

    def _on_change(self, kind: Kind, key: ServerKey, before: Seen | None, after: Seen | None) -> None:
        reported = before is not None and after is not None and before.status_json != after.status_json
        target = WriteTarget(kind, key.namespace, key.name)
        if not reported and self._drift.held_back(target, partial(self._enqueue, key)):
            return
        for owner in {seen.owner for seen in (before, after) if seen is not None and seen.owner is not None}:
            self._enqueue(owner)
