"""Store of what is wrong with the pods of servers; of each pod no more than that is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from fairlead_api.meta import LABEL_NAME, ServerKey
from fairlead_kube.client import Json
from fairlead_kube.store import ObjectStore
from fairlead_operator.server.symptoms import LISTEN_S, ClosedPort, Symptom, closed_port, symptom


@dataclass(frozen=True)
class _Pod:
    server: ServerKey
    created: str
    symptom: Symptom | None
    closed: ClosedPort | None = None


class Pods:
    """Symptoms by pod. `enqueue` is called with each server whose symptom has changed."""

    def __init__(
        self, enqueue: Callable[[ServerKey], None], now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._now = now
        self._enqueue = enqueue
        self.store: ObjectStore[_Pod] = ObjectStore(_pod, self._changed)

    def __repr__(self) -> str:
        return f"<Pods {len(self.store)}>"

    def symptom(self, key: ServerKey) -> Symptom | None:
        """Fault of the newest pod that has one, else a port that was closed for too long; None where all is well."""
        ill = [pod for pod in self._pods(key) if pod.symptom is not None]
        if ill:
            return max(ill, key=lambda pod: pod.created).symptom
        late = [pod.closed for pod in self._pods(key) if pod.closed is not None and self._patience(pod.closed) <= 0]
        return late[0].symptom if late else None

    def until_late(self, key: ServerKey) -> float | None:
        """Seconds until a port that is closed now is a fault; None where none is to become one."""
        left = [self._patience(pod.closed) for pod in self._pods(key) if pod.closed is not None]
        return min((seconds for seconds in left if seconds > 0), default=None)

    def _pods(self, key: ServerKey) -> list[_Pod]:
        return [pod for pod in self.store.values() if pod.server == key]

    def _patience(self, closed: ClosedPort) -> float:
        return min(LISTEN_S, LISTEN_S - (self._now() - closed.since).total_seconds())

    def _changed(self, key: ServerKey, before: _Pod | None, after: _Pod | None) -> None:
        known = before or after
        if known is not None and _faults(before) != _faults(after):
            self._enqueue(known.server)


def _faults(pod: _Pod | None) -> tuple[Symptom | None, ClosedPort | None]:
    return (None, None) if pod is None else (pod.symptom, pod.closed)


def _pod(item: Json) -> _Pod:
    metadata = item["metadata"]
    server = ServerKey(metadata["namespace"], (metadata.get("labels") or {}).get(LABEL_NAME, ""))
    return _Pod(server, metadata.get("creationTimestamp", ""), symptom(item), closed_port(item))
