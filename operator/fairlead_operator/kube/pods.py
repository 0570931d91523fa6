"""Store of what is wrong with the pods of servers; of each pod no more than that is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fairlead_api.meta import LABEL_NAME, ServerKey
from fairlead_kube.client import Json
from fairlead_operator.server.symptoms import Symptom, symptom


@dataclass(frozen=True)
class _Pod:
    server: ServerKey
    created: str
    symptom: Symptom | None


class Pods:
    """Symptoms by pod, fed by an informer. `enqueue` is called with each server whose symptom has changed."""

    def __init__(self, enqueue: Callable[[ServerKey], None]) -> None:
        self._enqueue = enqueue
        self._pods: dict[ServerKey, _Pod] = {}  # by namespace and name of the pod

    def __repr__(self) -> str:
        return f"<Pods {len(self._pods)}>"

    def symptom(self, key: ServerKey) -> Symptom | None:
        """Fault of the newest pod that has one; None where all is well."""
        ill = [pod for pod in self._pods.values() if pod.server == key and pod.symptom is not None]
        return max(ill, key=lambda pod: pod.created).symptom if ill else None

    # Called by the informer.

    def listed(self, objects: list[Json]) -> None:
        now = {_key(item) for item in objects}
        for key in [key for key in self._pods if key not in now]:
            self._replace(key, None)
        for item in objects:
            self.changed(item)

    def changed(self, item: Json) -> None:
        metadata = item["metadata"]
        name = (metadata.get("labels") or {}).get(LABEL_NAME)
        if name:
            server = ServerKey(metadata["namespace"], name)
            self._replace(_key(item), _Pod(server, metadata.get("creationTimestamp", ""), symptom(item)))

    def deleted(self, item: Json) -> None:
        self._replace(_key(item), None)

    def _replace(self, key: ServerKey, now: _Pod | None) -> None:
        before = self._pods.pop(key, None)
        if now is not None:
            self._pods[key] = now
        known = before or now
        if known is not None and (before.symptom if before else None) != (now.symptom if now else None):
            self._enqueue(known.server)


def _key(item: Json) -> ServerKey:
    return ServerKey(item["metadata"]["namespace"], item["metadata"]["name"])
