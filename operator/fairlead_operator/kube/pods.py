"""Store of what is wrong with the pods of servers; of each pod no more than that is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fairlead_api.meta import LABEL_NAME, ServerKey
from fairlead_kube.client import Json
from fairlead_kube.store import ObjectStore
from fairlead_operator.server.symptoms import Symptom, symptom


@dataclass(frozen=True)
class _Pod:
    server: ServerKey
    created: str
    symptom: Symptom | None


class Pods:
    """Symptoms by pod. `enqueue` is called with each server whose symptom has changed."""

    def __init__(self, enqueue: Callable[[ServerKey], None]) -> None:
        self._enqueue = enqueue
        self.store: ObjectStore[_Pod] = ObjectStore(_pod, self._changed)

    def __repr__(self) -> str:
        return f"<Pods {len(self.store)}>"

    def symptom(self, key: ServerKey) -> Symptom | None:
        """Fault of the newest pod that has one; None where all is well."""
        ill = [pod for pod in self.store.values() if pod.server == key and pod.symptom is not None]
        return max(ill, key=lambda pod: pod.created).symptom if ill else None

    def _changed(self, key: ServerKey, before: _Pod | None, after: _Pod | None) -> None:
        known = before or after
        if known is not None and (before.symptom if before else None) != (after.symptom if after else None):
            self._enqueue(known.server)


def _pod(item: Json) -> _Pod:
    metadata = item["metadata"]
    server = ServerKey(metadata["namespace"], (metadata.get("labels") or {}).get(LABEL_NAME, ""))
    return _Pod(server, metadata.get("creationTimestamp", ""), symptom(item))
