"""Probes whether a cluster enforces NetworkPolicies, with two short-lived pods."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from fairlead_kube.client import Json, Kube
from fairlead_kube.errors import ApiError, Conflict, Forbidden, NotFound, NotLeading, Unavailable
from fairlead_kube.resources import JOBS, NETWORK_POLICIES, PODS, Kind, Scope
from fairlead_operator.enforcement.manifests import (
    LABEL,
    TARGET,
    ProbePods,
    client_job,
    network_policy,
    opening_policies,
    target_job,
)
from fairlead_operator.enforcement.probe_answer import DIRECTIONS, Enforcement, parse_answer
from fairlead_operator.server.symptoms import symptom

logger = logging.getLogger(__name__)
T = TypeVar("T")

TIMEOUT_S: Final = 150.0
"""Timeout of a probe in seconds; shorter than the deadline of its pods, so that the pods still exist after it."""
DELETION_TIMEOUT_S: Final = 2.0
"""Timeout of the deletion of the probe's objects, in seconds."""


class EnforcementProbe(Protocol):
    """Finds out whether NetworkPolicies are enforced."""

    async def run(self) -> Enforcement:
        """The answer, or the reason why it is unknown. Raises ApiError if the probe should be repeated soon."""
        ...


class ClusterProbe:
    """Creates the Jobs and the NetworkPolicy of a probe in `namespace`, and always deletes them."""

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        pods: ProbePods,
        owners: Sequence[Json] = (),
        *,
        poll: float = 1.0,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._kube = kube
        self._namespace = namespace
        self._pods = pods
        self._owners = list(owners)
        self._poll = poll
        self._timeout_s = timeout_s
        self._awaited_job = TARGET
        self._last_pod: Json | None = None
        """Last seen pod of the awaited Job."""

    async def run(self) -> Enforcement:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._run()
        except TimeoutError:
            return Enforcement(
                unknown_reason=f"the probe did not end within {self._timeout_s:g} s: {self._delay_reason()}"
            )
        except NotLeading:
            raise
        except Forbidden as error:
            grant = "grant the rights in operator/network-probe.yaml (networkPolicy.probe.enabled of the chart)"
            return Enforcement(unknown_reason=f"the probe was refused: {error}; if rights are missing, {grant}")
        except ApiError as error:
            return Enforcement(unknown_reason=f"the probe failed: {error}")
        finally:
            await self._delete_objects()

    async def _run(self) -> Enforcement:
        target = await self._create(JOBS, target_job(self._pods, self._owners))
        await self._create(NETWORK_POLICIES, network_policy(target))
        address = await self._wait_for_pod(target, _ready_address)
        client = await self._create(JOBS, client_job(self._pods, target, address))
        message = await self._wait_for_pod(client, _termination_message)
        answer = parse_answer(message)
        if answer is None:
            detail = message.strip() or "the probe printed nothing"
            return Enforcement(
                unknown_reason=f"pods of namespace {self._namespace} cannot connect to each other even if a "
                f"NetworkPolicy allows it ({detail})"
            )
        if await self._read_pod(target, _ready_address) != address:
            return Enforcement(unknown_reason="the probe's target pod was replaced or ended during the probe")
        return await self._judge(answer)

    async def _judge(self, answer: Enforcement) -> Enforcement:
        """The answer; unknown if another NetworkPolicy may have allowed the connection."""
        policies, _ = await self._kube.list(Scope(NETWORK_POLICIES, Json, self._namespace))
        for direction in DIRECTIONS:
            names = opening_policies(policies, direction)
            if answer.of(direction) is False and names:
                return Enforcement(
                    unknown_reason=f"other NetworkPolicies of namespace {self._namespace} may allow what the probe "
                    f"tried ({', '.join(names[:5])}): exclude pods with the label {LABEL} from them"
                )
        return answer

    async def _create(self, kind: Kind, body: Json) -> Json:
        """Create an object. An object of the same name, from an earlier probe, is deleted first."""
        while True:
            try:
                return await self._kube.create(kind, self._namespace, body)
            except Conflict:
                if kind is JOBS:
                    await self._delete(body["metadata"]["name"])
                await asyncio.sleep(self._poll)

    async def _wait_for_pod(self, job: Json, read: Callable[[Json], T | None]) -> T:
        """Wait until `read` returns a result for the pod of a Job."""
        self._awaited_job = job["metadata"]["name"]
        self._last_pod = None
        while (outcome := await self._read_pod(job, read)) is None:  # noqa: ASYNC110  # of another process
            await asyncio.sleep(self._poll)
        return outcome

    async def _read_pod(self, job: Json, read: Callable[[Json], T | None]) -> T | None:
        """Call `read` with the pod of a Job; None without a pod or a result."""
        try:
            pods, _ = await self._kube.list(Scope(PODS, Json, self._namespace, LABEL))
        except Unavailable:
            return None
        job_pods = [pod for pod in pods if _owner(pod) == job["metadata"]["uid"]]
        self._last_pod = job_pods[0] if job_pods else self._last_pod
        return read(job_pods[0]) if job_pods else None

    def _delay_reason(self) -> str:
        if self._last_pod is not None:
            return delay_reason(self._last_pod)
        return (
            f"the Job {self._awaited_job} has no pod; a ResourceQuota or an admission policy may refuse the pod "
            f"(kubectl get events -n {self._namespace})"
        )

    async def _delete(self, name: str) -> None:
        with contextlib.suppress(NotFound):
            await self._kube.delete(JOBS, self._namespace, name)

    async def _delete_objects(self) -> None:
        """Delete the Job that owns the other objects. If that fails, Kubernetes deletes the Job after its deadline."""
        try:
            async with asyncio.timeout(DELETION_TIMEOUT_S):
                await self._delete(TARGET)
        except (ApiError, TimeoutError) as error:
            logger.warning("the network probe's objects could not be deleted and stay until their deadline: %s", error)


def delay_reason(pod: Json) -> str:
    """Why a pod of the probe did not end in time, from its status."""
    pod_symptom = symptom(pod)
    if pod_symptom is not None:
        return pod_symptom.message
    return f"the pod {pod['metadata']['name']} did not start in time"


def _owner(pod: Json) -> str:
    """UID of the Job that owns a pod; empty without an owner."""
    return next((str(owner["uid"]) for owner in pod["metadata"].get("ownerReferences") or ()), "")


def _ready_address(pod: Json) -> str | None:
    """IP address of a pod that is ready; None until then."""
    status = pod.get("status") or {}
    is_ready = any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in status.get("conditions") or ()
    )
    return status.get("podIP") or None if is_ready else None


def _termination_message(pod: Json) -> str | None:
    """Termination message of a pod's container, or the reason of its end if it left none; None while the pod runs."""
    status = pod.get("status") or {}
    if status.get("phase") not in ("Succeeded", "Failed"):
        return None
    terminations = [
        (container.get("state") or {}).get("terminated") or {} for container in status.get("containerStatuses") or ()
    ]
    return str(terminations[0].get("message") or terminations[0].get("reason") or "") if terminations else ""
