"""Stores the symptoms of the servers' pods, and no other data of pods."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from fairlead_api.meta import LABEL_NAME, ServerKey
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_kube.client import Json
from fairlead_kube.store import ObjectStore
from fairlead_operator.server.podwarnings import PodWarning, pod_warning
from fairlead_operator.server.symptoms import (
    LISTEN_S,
    ClosedPort,
    Symptom,
    closed_port,
    is_unready,
    listening_port,
    started_at,
    symptom,
)

_TEMPLATE_LABEL: Final = "pod-template-hash"
MOST_WARNINGS: Final = 5000
"""Maximum number of pods whose last warning is kept; beyond it, the oldest warning is dropped. All pods of the watched
namespaces count, not only Fairlead's, because an event does not contain the labels of its pod.
"""


@dataclass(frozen=True)
class _Pod:
    """The relevant content of a pod of a server."""

    server: ServerKey
    template: str
    """Hash of the pod's template; empty if the pod belongs to no ReplicaSet."""
    uid: str
    created_at: str
    is_ending: bool
    is_unready: bool
    symptom: Symptom | None
    """The fault in the pod's status."""
    closed_port: ClosedPort | None
    """The server's port if its running container does not listen on it."""
    started_at: datetime | None
    """Start of the server's container; None if the container does not run."""
    listening_port: int | None
    """The server's port if the pod is ready."""


class Pods:
    """Symptoms of all servers' pods. `enqueue` is called with each server whose symptom has changed."""

    def __init__(
        self, enqueue: Callable[[ServerKey], None], now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._now = now
        self._enqueue = enqueue
        self.store: ObjectStore[_Pod] = ObjectStore(_pod, self._on_change)
        self.warnings = PodWarnings(self._on_warning)
        """Warning events, which contain reasons that the pods' status lacks."""

    def __repr__(self) -> str:
        return f"<Pods {len(self.store)}>"

    def symptom(self, key: ServerKey) -> Symptom | None:
        """Symptom of the newest faulty pod, else of a port that has been closed for too long, else of a warning; None
        without a fault. Only pods of the newest template count.
        """
        pods = self._newest_pods(key)
        faults = [(pod.created_at, name, pod.symptom) for name, pod in pods.items() if pod.symptom is not None]
        if faults:
            _, name, fault = max(faults, key=lambda each: each[:2])
            return self._add_probe_warning(name, pods[name], fault) or fault
        closed_ports = [pod.closed_port for pod in pods.values() if pod.closed_port is not None]
        overdue = [port for port in closed_ports if self._seconds_left(port.since) <= 0]
        if overdue:
            return overdue[0].symptom
        warnings = [warning for warning in self._warnings(pods) if self._seconds_left(warning.first_at) <= 0]
        return max(warnings, key=lambda warning: warning.last_at).symptom if warnings else None

    def serving_port(self, server: McpServer) -> int:
        """The port on which ready pods serve: that of the spec, unless all of them are of an earlier spec with another
        port.
        """
        spec_port = server.spec.effective_port
        ports = {pod.listening_port for pod in self._pods(server.key).values()} - {None}
        return spec_port if not ports or spec_port in ports else min(port for port in ports if port is not None)

    def newest(self, key: ServerKey) -> str:
        """Name of the newest pod; empty without pods."""
        pods = self._pods(key)
        return max(pods, key=lambda name: (pods[name].created_at, name)).name if pods else ""

    def seconds_until_fault(self, key: ServerKey) -> float | None:
        """Seconds until the next closed port or warning counts as a fault; None if all of them already do."""
        pods = self._newest_pods(key)
        start_times = [pod.closed_port.since for pod in pods.values() if pod.closed_port is not None]
        start_times += [warning.first_at for warning in self._warnings(pods)]
        return min((seconds for seconds in map(self._seconds_left, start_times) if seconds > 0), default=None)

    def _pods(self, key: ServerKey) -> dict[ServerKey, _Pod]:
        pods = {name: self.store.get(name) for name in self.store}
        return {name: pod for name, pod in pods.items() if pod is not None and pod.server == key}

    def _newest_pods(self, key: ServerKey) -> dict[ServerKey, _Pod]:
        """The pods of the newest pod's template, without those that are being deleted.

        Kubernetes keeps a faulty pod of an earlier template until a pod of the new one is ready. Its fault says nothing
        about the present spec.
        """
        pods = {name: pod for name, pod in self._pods(key).items() if not pod.is_ending}
        if not pods:
            return {}
        _, newest = max(pods.items(), key=lambda item: (item[1].created_at, item[0]))
        return {name: pod for name, pod in pods.items() if pod.template == newest.template}

    def _warnings(self, pods: dict[ServerKey, _Pod]) -> list[PodWarning]:
        """Warnings about pods that are not ready, except warnings that are older than the running container."""
        warnings = ((pod, self.warnings.last_warning(name, pod.uid)) for name, pod in pods.items() if pod.is_unready)
        return [
            warning
            for pod, warning in warnings
            if warning is not None and (pod.started_at is None or warning.last_at >= pod.started_at)
        ]

    def _add_probe_warning(self, name: ServerKey, pod: _Pod, fault: Symptom) -> Symptom | None:
        """The symptom of a crash with the kubelet's warning added, if the kubelet ended the container because of a
        failed probe; else None.

        In the pod's status, such a container looks like a container that ended by itself.
        """
        warning = self.warnings.last_warning(name, pod.uid)
        if fault.cause != Cause.CRASH_LOOPING or warning is None or not warning.ends_container:
            return None
        return dataclasses.replace(fault, message=f"{fault.message}; Kubernetes ended it: {warning.note}")

    def _seconds_left(self, since: datetime) -> float:
        return min(LISTEN_S, LISTEN_S - (self._now() - since).total_seconds())

    def _on_change(self, key: ServerKey, before: _Pod | None, after: _Pod | None) -> None:
        pod = before or after
        if pod is not None and before != after:
            self._enqueue(pod.server)

    def _on_warning(self, name: ServerKey) -> None:
        pod = self.store.get(name)
        if pod is not None and pod.is_unready:
            self._enqueue(pod.server)


class PodWarnings:
    """The last warning about each pod. Implements `informer.Store`. `on_warning` is called with the key of the pod."""

    def __init__(self, on_warning: Callable[[ServerKey], None]) -> None:
        self._on_warning = on_warning
        self._last_warnings: OrderedDict[ServerKey, PodWarning] = OrderedDict()

    def __len__(self) -> int:
        return len(self._last_warnings)

    def last_warning(self, pod: ServerKey, uid: str) -> PodWarning | None:
        """The last warning about the pod with that UID; None without a warning."""
        warning = self._last_warnings.get(pod)
        return warning if warning is not None and warning.uid == uid else None

    def replace(self, objects: Sequence[Json], version: str) -> None:
        """Add all listed events. Warnings of missing events are kept, because events expire while their cause lasts."""
        for item in objects:
            self.update(item)

    def update(self, item: Json) -> None:
        """Add an event that was posted or repeated."""
        warning = pod_warning(item)
        if warning is None:
            return
        earlier_warning = self._last_warnings.get(warning.pod)
        if (
            earlier_warning is not None
            and earlier_warning.uid == warning.uid
            and warning.last_at < earlier_warning.last_at
        ):
            return
        is_repetition = earlier_warning is not None and warning.repeats(earlier_warning)
        if (
            earlier_warning is not None and is_repetition
        ):  # keep its text, so that a repetition causes no write of a status
            warning = dataclasses.replace(earlier_warning, last_at=warning.last_at)
        self._last_warnings[warning.pod] = warning
        self._last_warnings.move_to_end(warning.pod)
        if len(self._last_warnings) > MOST_WARNINGS:
            self._last_warnings.popitem(last=False)
        if not is_repetition:
            self._on_warning(warning.pod)

    def delete(self, item: Json) -> None:
        """No-op: events expire an hour after their last repetition, while the state of their pod may last."""


def _pod(item: Json) -> _Pod:
    """The relevant content of an API object of kind Pod."""
    metadata = item["metadata"]
    labels = metadata.get("labels") or {}
    server = ServerKey(metadata["namespace"], labels.get(LABEL_NAME, ""))
    return _Pod(
        server,
        labels.get(_TEMPLATE_LABEL, ""),
        metadata.get("uid", ""),
        metadata.get("creationTimestamp", ""),
        bool(metadata.get("deletionTimestamp")),
        is_unready(item),
        symptom(item),
        closed_port(item),
        started_at(item),
        listening_port(item),
    )
