"""Stores of what is wrong with the pods of servers; of each pod no more than that is kept."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from fairlead_api.meta import LABEL_NAME, ServerKey
from fairlead_api.v1alpha1.causes import Cause
from fairlead_kube.client import Json
from fairlead_kube.store import ObjectStore
from fairlead_operator.server.podwarnings import PodWarning, pod_warning
from fairlead_operator.server.symptoms import LISTEN_S, ClosedPort, Symptom, closed_port, started_at, symptom, unready

MOST_WARNINGS: Final = 5000
"""Pods of which the last warning is kept, those of others included: an event does not tell whose its pod is. Above that
the one that was warned about longest ago is forgotten."""


@dataclass(frozen=True)
class _Pod:
    server: ServerKey
    uid: str
    created: str
    unready: bool
    symptom: Symptom | None
    closed: ClosedPort | None
    started_at: datetime | None
    """Start of the server's container, where it runs or ran."""


class Pods:
    """Symptoms by pod. `enqueue` is called with each server whose symptom has changed."""

    def __init__(
        self, enqueue: Callable[[ServerKey], None], now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._now = now
        self._enqueue = enqueue
        self.store: ObjectStore[_Pod] = ObjectStore(_pod, self._on_change)
        self.warnings = PodWarnings(self._on_warning)
        """Warning events, which tell of pods what their status does not."""

    def __repr__(self) -> str:
        return f"<Pods {len(self.store)}>"

    def symptom(self, key: ServerKey) -> Symptom | None:
        """Fault of the newest pod that has one, else a port that was closed, or a warning, for too long; None where all
        is well.
        """
        pods = self._pods(key)
        ill = [(pod.created, name, pod.symptom) for name, pod in pods.items() if pod.symptom is not None]
        if ill:
            _, name, fault = max(ill, key=lambda each: each[:2])
            return self._ended_by_probe(name, pods[name], fault) or fault
        late = [pod.closed for pod in pods.values() if pod.closed is not None and self._patience(pod.closed.since) <= 0]
        if late:
            return late[0].symptom
        warnings = [warning for warning in self._warnings(pods) if self._patience(warning.first) <= 0]
        return max(warnings, key=lambda warning: warning.last).symptom if warnings else None

    def newest(self, key: ServerKey) -> str:
        """Name of the pod that was made last; empty where there is none."""
        pods = self._pods(key)
        return max(pods, key=lambda name: (pods[name].created, name)).name if pods else ""

    def until_late(self, key: ServerKey) -> float | None:
        """Seconds until a closed port, or a warning, is a fault; None where none is to become one."""
        pods = self._pods(key)
        since = [pod.closed.since for pod in pods.values() if pod.closed is not None]
        since += [warning.first for warning in self._warnings(pods)]
        return min((seconds for seconds in map(self._patience, since) if seconds > 0), default=None)

    def _pods(self, key: ServerKey) -> dict[ServerKey, _Pod]:
        pods = {name: self.store.get(name) for name in self.store}
        return {name: pod for name, pod in pods.items() if pod is not None and pod.server == key}

    def _warnings(self, pods: dict[ServerKey, _Pod]) -> list[PodWarning]:
        """Warnings about pods that are not ready, but for those from before their containers started."""
        warnings = ((pod, self.warnings.last(name, pod.uid)) for name, pod in pods.items() if pod.unready)
        return [
            warning
            for pod, warning in warnings
            if warning is not None and (pod.started_at is None or warning.last >= pod.started_at)
        ]

    def _ended_by_probe(self, name: ServerKey, pod: _Pod, fault: Symptom) -> Symptom | None:
        """A container that the kubelet ends for a probe looks like one that ended by itself."""
        warning = self.warnings.last(name, pod.uid)
        if fault.cause != Cause.CRASH_LOOPING or warning is None or not warning.kills:
            return None
        return dataclasses.replace(fault, message=f"{fault.message}; Kubernetes ended it: {warning.note}")

    def _patience(self, since: datetime) -> float:
        return min(LISTEN_S, LISTEN_S - (self._now() - since).total_seconds())

    def _on_change(self, key: ServerKey, before: _Pod | None, after: _Pod | None) -> None:
        pod = before or after
        if pod is not None and before != after:
            self._enqueue(pod.server)

    def _on_warning(self, name: ServerKey) -> None:
        pod = self.store.get(name)
        if pod is not None and pod.unready:
            self._enqueue(pod.server)


class PodWarnings:
    """The last warning about each pod. Implements `informer.Store`. `changed` is called with the pod."""

    def __init__(self, changed: Callable[[ServerKey], None]) -> None:
        self._changed = changed
        self._last: OrderedDict[ServerKey, PodWarning] = OrderedDict()

    def __len__(self) -> int:
        return len(self._last)

    def last(self, pod: ServerKey, uid: str) -> PodWarning | None:
        """The last warning about a pod; None where there is none about the one of that uid."""
        warning = self._last.get(pod)
        return warning if warning is not None and warning.uid == uid else None

    def replace(self, objects: Sequence[Json], version: str) -> None:
        """Take in all events; those that are missing were true when they were told."""
        for item in objects:
            self.update(item)

    def update(self, item: Json) -> None:
        """Take in an event that was posted, or counted again."""
        warning = pod_warning(item)
        if warning is None:
            return
        earlier = self._last.get(warning.pod)
        if earlier is not None and earlier.uid == warning.uid and warning.last < earlier.last:
            return
        same = earlier is not None and warning.repeats(earlier)
        if earlier is not None and same:  # the same words, or a status would be written for each try
            warning = dataclasses.replace(earlier, last=warning.last)
        self._last[warning.pod] = warning
        self._last.move_to_end(warning.pod)
        if len(self._last) > MOST_WARNINGS:
            self._last.popitem(last=False)
        if not same:
            self._changed(warning.pod)

    def delete(self, item: Json) -> None:
        """Nothing: an event is deleted when its time is over, an hour after the last count, and its pod may still be
        as it was.
        """


def _pod(item: Json) -> _Pod:
    metadata = item["metadata"]
    server = ServerKey(metadata["namespace"], (metadata.get("labels") or {}).get(LABEL_NAME, ""))
    return _Pod(
        server,
        metadata.get("uid", ""),
        metadata.get("creationTimestamp", ""),
        unready(item),
        symptom(item),
        closed_port(item),
        started_at(item),
    )
