"""Store of decoded objects of one kind, for events, lists and responses to writes that arrive in any order.

Every object has a resourceVersion, which increases with each write to any object of the kind (Kubernetes API concepts,
"Resource versions"; comparable by KEP-5504). Only the resourceVersion decides what is stored: an older version never
replaces a newer one, and an older event does not restore an object that a newer list lacks or a later event deleted. So
several sources may update one store: a watch, complete lists, and responses to writes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

from fairlead_api.meta import ServerKey as ObjectKey
from fairlead_kube.resources import Json, is_newer, is_older

V = TypeVar("V")

MAX_DELETIONS: Final = 10_000
"""Maximum number of deletions that are stored between two lists; beyond it, the oldest is dropped."""


@dataclass(frozen=True)
class _StoredObject(Generic[V]):
    uid: str
    version: str
    value: V


class ObjectStore(Generic[V]):
    """Values of objects by namespace and name; the namespace is "" for cluster-scoped kinds. Implements
    `informer.Store`.

    `decode` converts an object to the value that is stored. `on_change(key, before, after)` is called after a value has
    changed; `before` is None for a new object, `after` is None for a deleted one.
    """

    def __init__(
        self,
        decode: Callable[[Json], V],
        on_change: Callable[[ObjectKey, V | None, V | None], None] = lambda key, before, after: None,
    ) -> None:
        self._decode = decode
        self._on_change = on_change
        self._entries: dict[ObjectKey, _StoredObject[V]] = {}
        self._deletions: OrderedDict[ObjectKey, str] = OrderedDict()
        """resourceVersions of deletions since the last list."""
        self._list_version = ""
        """resourceVersion of the last list."""

    def __repr__(self) -> str:
        return f"<ObjectStore of {len(self._entries)}>"

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(list(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: ObjectKey) -> V | None:
        """Value of an object; None if it does not exist."""
        entry = self._entries.get(key)
        return entry.value if entry is not None else None

    def version(self, key: ObjectKey) -> str:
        """resourceVersion of an object; empty if it does not exist."""
        entry = self._entries.get(key)
        return entry.version if entry is not None else ""

    def values(self) -> list[V]:
        """Values of all objects."""
        return [entry.value for entry in self._entries.values()]

    async def replace(self, objects: Sequence[Json], version: str) -> None:
        """Replace all objects by the objects of a list of `version`. Missing objects are deleted, unless the store has
        a newer version of them.

        Objects are decoded one per iteration of the event loop, then all are replaced at once. If a list has an older
        version than the previous list, etcd was restored from a backup: then the list replaces everything, although
        its versions are lower. A list from an API server's lagging cache would look the same, but informers do not
        pass on such a list.
        """
        is_restored = is_older(version, self._list_version)
        entries: dict[ObjectKey, _StoredObject[V]] = {}
        for item in objects:
            key, uid, item_version = _identity(item)
            entry = None if is_restored or not item_version else self._entries.get(key)
            is_same = entry is not None and (uid, item_version) == (entry.uid, entry.version)
            entries[key] = (
                entry if entry is not None and is_same else _StoredObject(uid, item_version, self._decode(item))
            )
            await asyncio.sleep(0)
        self._replace(entries, version)

    def _replace(self, listed_objects: Mapping[ObjectKey, _StoredObject[V]], version: str) -> None:
        is_restored = is_older(version, self._list_version)
        if is_restored:
            self._deletions.clear()
            for key in list(self._entries):
                self._drop(key, notify=key not in listed_objects)
        self._list_version = ""  # a listed object exists, even if the previous list lacked it
        for key, entry in listed_objects.items():
            self._set(key, entry.uid, entry.version, partial(_value, entry), notify=True)
        for key, entry in list(self._entries.items()):
            if key not in listed_objects and not is_older(version, entry.version):
                self._drop(key)
        self._list_version = version
        for key, deletion in list(self._deletions.items()):
            if not is_older(version, deletion):
                del self._deletions[key]

    def update(self, item: Json) -> None:
        """Set an object of an event or a list, unless the store has a newer version."""
        self._set(*_identity(item), partial(self._decode, item), notify=True)

    def put(self, item: Json) -> None:
        """Set an object from the response to a write, unless the store has a newer version. `on_change` is not
        called.
        """
        self._set(*_identity(item), partial(self._decode, item), notify=False)

    def delete(self, item: Json) -> None:
        """Delete an object that no longer exists or no longer matches the selector, unless the store has a newer
        version.
        """
        key, version = key_of(item), item["metadata"].get("resourceVersion", "")
        entry = self._entries.get(key)
        if entry is not None and is_older(version, entry.version):
            return
        self._record_deletion(key, version)
        self._drop(key)

    def forget(self, key: ObjectKey) -> None:
        """Drop an object that this process has deleted, before the event about it arrives."""
        self._record_deletion(key, self.version(key))
        self._entries.pop(key, None)

    def _set(self, key: ObjectKey, uid: str, version: str, decode: Callable[[], V], *, notify: bool) -> None:
        previous_entry = self._entries.get(key)
        if previous_entry is not None:
            if is_older(version, previous_entry.version) or (
                version and (uid, version) == (previous_entry.uid, previous_entry.version)
            ):
                return
        elif is_older(version, self._list_version) or (
            key in self._deletions and not is_newer(version, self._deletions[key])
        ):
            return
        old_value = previous_entry.value if previous_entry is not None else None
        new_value = decode()
        self._entries[key] = _StoredObject(uid, version, new_value)
        self._deletions.pop(key, None)
        if notify and old_value != new_value:
            self._on_change(key, old_value, new_value)

    def _record_deletion(self, key: ObjectKey, version: str) -> None:
        """Store the version of a deletion, so that older versions of the object are ignored."""
        if (
            version
            and not is_older(version, self._list_version)
            and not is_older(version, self._deletions.get(key, ""))
        ):
            self._deletions[key] = version
            self._deletions.move_to_end(key)
            if len(self._deletions) > MAX_DELETIONS:
                self._deletions.popitem(last=False)

    def _drop(self, key: ObjectKey, *, notify: bool = True) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None and notify:
            self._on_change(key, entry.value, None)


def _value(entry: _StoredObject[V]) -> V:
    return entry.value


def _identity(item: Json) -> tuple[ObjectKey, str, str]:
    """Key, uid and resourceVersion of an object."""
    metadata = item["metadata"]
    return key_of(item), metadata.get("uid", ""), metadata.get("resourceVersion", "")


def key_of(item: Json) -> ObjectKey:
    """Namespace and name of an object."""
    return ObjectKey(item["metadata"].get("namespace", ""), item["metadata"]["name"])
