"""Simulates the controllers, nodes and network of a cluster for the network probe, on an API server without nodes.

Tests can thus get every answer of the probe, even on a machine whose network does not enforce NetworkPolicies.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from fairlead_kube.client import Json, Kube
from fairlead_kube.errors import Conflict, NotFound
from fairlead_kube.resources import JOBS, NETWORK_POLICIES, PODS, Kind, Scope
from fairlead_operator.enforcement.manifests import LABEL, NO_EGRESS, NO_INGRESS, applies, owner, permits
from fairlead_operator.enforcement.probe_answer import DIRECTIONS, Direction

Fault = Literal["", "no pods", "no network"]
ADDRESS: Final = "192.0.2.1"
_ROLE_OF: Final[Mapping[Direction, str]] = {"incoming": "target", "outgoing": "client"}


@dataclass(frozen=True)
class SimulatedNetwork:
    """Creates and runs the pods of the probe's Jobs, and deletes the objects of a deleted Job.

    The existing NetworkPolicies decide which ports the client reaches.
    """

    kube: Kube
    namespace: str
    enforces: frozenset[Direction] = field(default=frozenset(DIRECTIONS))
    """Directions in which the network enforces NetworkPolicies."""
    fault: Fault = ""
    """Simulated fault: a quota that refuses pods, or pods that cannot connect at all."""
    poll: float = 0.05
    """Seconds between two steps of the simulation."""

    async def run(self) -> None:
        """Simulate until cancelled."""
        while True:
            with contextlib.suppress(Conflict, NotFound):  # deleted meanwhile
                await self._step()
            await asyncio.sleep(self.poll)

    async def _step(self) -> None:
        # Jobs are read last, so that objects of a Job that was created meanwhile do not count as orphans.
        pods, policies, jobs = [await self._list(kind) for kind in (PODS, NETWORK_POLICIES, JOBS)]
        existing_uids = {job["metadata"]["uid"] for job in jobs}
        for kind, items in ((JOBS, jobs), (PODS, pods), (NETWORK_POLICIES, policies)):
            for item in items:
                if _role(item) and _is_orphaned(item, existing_uids):
                    await self.kube.delete(kind, self.namespace, item["metadata"]["name"])
        uids_with_pod = {owner["uid"] for pod in pods for owner in pod["metadata"].get("ownerReferences") or ()}
        for job in jobs:
            if _role(job) and job["metadata"]["uid"] not in uids_with_pod and self.fault != "no pods":
                await self._start(job)

    async def _list(self, kind: Kind) -> list[Json]:
        return [*(await self.kube.list(Scope(kind, Json, self.namespace)))[0]]

    async def _start(self, job: Json) -> None:
        template = job["spec"]["template"]
        metadata = {**template["metadata"], "name": job["metadata"]["name"], "ownerReferences": [owner(job)]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        await self.kube.create(PODS, self.namespace, pod)
        status = self._status(job, await self._list(NETWORK_POLICIES))
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": metadata["name"]}, "status": status}
        await self.kube.apply(PODS, self.namespace, body, subresource="status", manager="simulated-kubelet")

    def _status(self, job: Json, policies: list[Json]) -> Json:
        if _role(job) == "target":
            conditions = [{"type": "Ready", "status": "True"}]
            status = _pod_status({"running": {}}, phase="Running", conditions=conditions)
            return {**status, "podIP": ADDRESS, "podIPs": [{"ip": ADDRESS}]}
        line = "allowed=held" if self.fault == "no network" else self._answer_line(policies)
        return _pod_status({"terminated": {"exitCode": 0, "message": f"{line}\n"}}, phase="Succeeded")

    def _answer_line(self, policies: list[Json]) -> str:
        blocked = {
            "incoming": self._is_blocked(policies, NO_INGRESS),
            "outgoing": self._is_blocked(policies, NO_EGRESS),
        }
        return " ".join(f"{name}={'held' if is_blocked else 'open'}" for name, is_blocked in blocked.items())

    def _is_blocked(self, policies: list[Json], port: int) -> bool:
        """Whether policies block a connection from the client to a port of the target, at either end."""
        for direction in self.enforces:
            labels = {LABEL: _ROLE_OF[direction]}
            applicable = [policy for policy in policies if applies(policy, labels, direction)]
            if applicable and not any(permits(policy, direction, port) for policy in applicable):
                return True
        return False


def _pod_status(container_state: Json, **members: object) -> Json:
    """Status of a pod with one container in this state, and with further members."""
    container = {"name": "probe", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
    return {"containerStatuses": [{**container, "state": container_state}], **members}


def _role(item: Json) -> str:
    """Value of the probe's label, `target` or `client`; empty for objects that do not belong to a probe."""
    return str((item["metadata"].get("labels") or {}).get(LABEL, ""))


def _is_orphaned(item: Json, existing_uids: set[str]) -> bool:
    """Whether an object belongs to a Job that no longer exists. `existing_uids` are the UIDs of all existing Jobs."""
    owners = item["metadata"].get("ownerReferences") or ()
    jobs = [owner["uid"] for owner in owners if owner["kind"] == "Job"]
    return bool(jobs) and not any(uid in existing_uids for uid in jobs)
