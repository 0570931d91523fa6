"""Objects of one kind as last seen, decoded, whatever order events, lists and answers to writes arrive in.

Every reading of an object has a resourceVersion, and those of one kind grow with each write of any of its objects
(Kubernetes API concepts, "Resource versions"; comparable by KEP-5504). That alone decides here: an older reading never
replaces a newer one, and an object that a newer list or a later deletion took away does not return by an older event.
So several sources may feed one store: a watch, complete lists, the answers to writes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

from fairlead_api.meta import ServerKey as ObjectKey
from fairlead_kube.resources import Json, newer, older

V = TypeVar("V")

DELETIONS: Final = 10_000
"""Deletions that are remembered between two lists; above that the oldest is forgotten."""


@dataclass(frozen=True)
class _Reading(Generic[V]):
    uid: str
    version: str
    value: V


class ObjectStore(Generic[V]):
    """Values of objects by namespace and name (namespace "" for kinds without). Implements `informer.Store`.

    `decode` makes the value that is kept of an object; what it does not keep takes no memory. `changed(key, before,
    after)` is called once the store holds `after`, where the two differ; None where no object was, or is.
    """

    def __init__(
        self,
        decode: Callable[[Json], V],
        changed: Callable[[ObjectKey, V | None, V | None], None] = lambda key, before, after: None,
    ) -> None:
        self._decode = decode
        self._changed = changed
        self._readings: dict[ObjectKey, _Reading[V]] = {}
        self._deletions: OrderedDict[ObjectKey, str] = OrderedDict()
        """Versions of deletions since the last list."""
        self._listed = ""
        """Version of the last list."""

    def __repr__(self) -> str:
        return f"<ObjectStore of {len(self._readings)}>"

    def __contains__(self, key: object) -> bool:
        return key in self._readings

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(list(self._readings))

    def __len__(self) -> int:
        return len(self._readings)

    def get(self, key: ObjectKey) -> V | None:
        """Value of an object, None where there is none."""
        reading = self._readings.get(key)
        return reading.value if reading is not None else None

    def version(self, key: ObjectKey) -> str:
        """resourceVersion of an object; empty where there is none."""
        reading = self._readings.get(key)
        return reading.version if reading is not None else ""

    def values(self) -> list[V]:
        """Values of all objects."""
        return [reading.value for reading in self._readings.values()]

    async def replace(self, objects: Sequence[Json], version: str) -> None:
        """Take in all objects as of `version`; what is missing is gone, unless a newer reading of it is known.

        Each object is decoded in a turn of the loop of its own, and all are taken in together. A list older than the
        last one means that the API server was restored from a backup, where versions begin again: it replaces
        everything. Informers pass on no list from a cache that lags.
        """
        restored = older(version, self._listed)
        readings: dict[ObjectKey, _Reading[V]] = {}
        for item in objects:
            key, uid, at = _identity(item)
            reading = None if restored or not at else self._readings.get(key)
            same = reading is not None and (uid, at) == (reading.uid, reading.version)
            readings[key] = reading if reading is not None and same else _Reading(uid, at, self._decode(item))
            await asyncio.sleep(0)
        self._replace(readings, version)

    def _replace(self, listed: Mapping[ObjectKey, _Reading[V]], version: str) -> None:
        restored = older(version, self._listed)
        if restored:
            self._deletions.clear()
            for key in list(self._readings):
                self._drop(key, told=key not in listed)
        self._listed = ""  # what is in a list is there, whatever the list before it said
        for key, reading in listed.items():
            self._take(key, reading.uid, reading.version, partial(_value, reading), told=True)
        for key, reading in list(self._readings.items()):
            if key not in listed and not older(version, reading.version):
                self._drop(key)
        self._listed = version
        for key, deletion in list(self._deletions.items()):
            if not older(version, deletion):
                del self._deletions[key]

    def update(self, item: Json) -> None:
        """Take in an object as an event or a list has it, unless something newer is known."""
        self._take(*_identity(item), partial(self._decode, item), told=True)

    def put(self, item: Json) -> None:
        """Take in the answer to a write, unless something newer is known; `changed` is not called."""
        self._take(*_identity(item), partial(self._decode, item), told=False)

    def delete(self, item: Json) -> None:
        """Take note that an object is gone, or no longer matches the selector, unless a successor is known."""
        key, version = key_of(item), item["metadata"].get("resourceVersion", "")
        reading = self._readings.get(key)
        if reading is not None and older(version, reading.version):
            return
        self._bury(key, version)
        self._drop(key)

    def forget(self, key: ObjectKey) -> None:
        """Drop an object that was deleted from here, ahead of the event that tells of it."""
        self._bury(key, self.version(key))
        self._readings.pop(key, None)

    def _take(self, key: ObjectKey, uid: str, version: str, decode: Callable[[], V], *, told: bool) -> None:
        previous = self._readings.get(key)
        if previous is not None:
            if older(version, previous.version) or (version and (uid, version) == (previous.uid, previous.version)):
                return
        elif older(version, self._listed) or (key in self._deletions and not newer(version, self._deletions[key])):
            return
        before = previous.value if previous is not None else None
        after = decode()
        self._readings[key] = _Reading(uid, version, after)
        self._deletions.pop(key, None)
        if told and before != after:
            self._changed(key, before, after)

    def _bury(self, key: ObjectKey, version: str) -> None:
        """Remember up to which version readings of an object are from before its end."""
        if version and not older(version, self._listed) and not older(version, self._deletions.get(key, "")):
            self._deletions[key] = version
            self._deletions.move_to_end(key)
            if len(self._deletions) > DELETIONS:
                self._deletions.popitem(last=False)

    def _drop(self, key: ObjectKey, *, told: bool = True) -> None:
        reading = self._readings.pop(key, None)
        if reading is not None and told:
            self._changed(key, reading.value, None)


def _value(reading: _Reading[V]) -> V:
    return reading.value


def _identity(item: Json) -> tuple[ObjectKey, str, str]:
    """Key, uid and resourceVersion of an object."""
    metadata = item["metadata"]
    return key_of(item), metadata.get("uid", ""), metadata.get("resourceVersion", "")


def key_of(item: Json) -> ObjectKey:
    """Namespace and name of an object."""
    return ObjectKey(item["metadata"].get("namespace", ""), item["metadata"]["name"])
