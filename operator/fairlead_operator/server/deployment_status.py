"""Makes verdicts about a server from the status of its Deployment. Pure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Final

from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.condition_types import ConditionType
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_operator.ports import ConditionVerdict, PodCount
from fairlead_operator.server.kube_manifests import selector_labels
from fairlead_operator.server.symptoms import Symptom, condition_of

NOTHING_TO_RUN: Final = ConditionVerdict(True, Cause.PROGRAMMED, "nothing is started here: the server has a URL")
NOT_STARTED: Final = ConditionVerdict(
    None,
    Cause.WAITING_FOR_REFS,
    "pods are neither started nor changed until the Secrets that they read may be used; running pods are kept",
)
NO_DOMAIN_POLICIES: Final = ConditionVerdict(
    False,
    Cause.NOT_SUPPORTED_HERE,
    "spec.network.egress has domainNames, which require Cilium, but the cluster served no CiliumNetworkPolicy when the "
    "operator began to lead: name networks (cidrs) instead, or install Cilium and restart the operator; nothing is "
    "started or changed, and running pods are kept",
)
_QUOTED: Final = re.compile(r'"([^"]+)"')
_REFUSED_POD: Final = re.compile(r'\b[Pp]ods? "([^"]+)"')
NO_POD: Final = ConditionVerdict(
    False, Cause.UNREACHABLE, "none of the server's pods is available", fault=Cause.DEPLOYMENT_FAILED
)


def judge(
    server: McpServer, generation: int, status: Mapping[str, Any]
) -> tuple[ConditionVerdict, ConditionVerdict | None]:
    """Verdict Programmed, and the verdict Verified if the server's pods were up and are now down (else None).

    `generation` is the generation of the Deployment: a status of an older generation says nothing about the present
    rollout. If pods were up and no longer are, `Programmed` stays True, because the objects are as desired; only the
    server does not answer.
    """
    if server.spec.effective_replicas == 0:
        return ConditionVerdict(False, Cause.STOPPED, "spec.replicas is 0"), None
    available_pods = int(status.get("availableReplicas") or 0)
    if available_pods > 0:
        return ConditionVerdict(True, Cause.PROGRAMMED, "the server's pods are up"), None
    if failure := _refusal(server, status) or _missed_deadline(generation, status):
        return ConditionVerdict(False, Cause.DEPLOYMENT_FAILED, failure), None
    if _was_up(server):
        return ConditionVerdict(True, Cause.PROGRAMMED, "the server was started"), NO_POD
    return ConditionVerdict(None, Cause.DEPLOYING, "no pod is available yet"), None


def add_symptom(
    verdict: ConditionVerdict, outage: ConditionVerdict | None, pod_symptom: Symptom | None
) -> tuple[ConditionVerdict, ConditionVerdict | None]:
    """Add the symptom of a pod to the two verdicts of `judge`. The symptom is ignored while another pod is
    available.
    """
    if pod_symptom is None or verdict.cause == Cause.STOPPED:
        return verdict, outage
    if outage is not None:
        message = f"{outage.message}: {pod_symptom.message}"
        return verdict, dataclasses.replace(outage, message=message, fault=pod_symptom.cause)
    if verdict.ok is True:
        return verdict, outage
    if verdict.ok is False and not pod_symptom.needs_change and pod_symptom.cause != Cause.INSTALLING:
        return dataclasses.replace(verdict, message=f"{verdict.message}: {pod_symptom.message}"), outage
    return ConditionVerdict(False if pod_symptom.needs_change else None, pod_symptom.cause, pod_symptom.message), outage


def is_complete(server: McpServer, status: Mapping[str, Any]) -> bool:
    """Whether the wanted number of pods is up, and no pod of an earlier spec is left."""
    available_pods, total_pods = int(status.get("availableReplicas") or 0), int(status.get("replicas") or 0)
    return available_pods >= server.spec.effective_replicas and int(status.get("updatedReplicas") or 0) == total_pods


def is_rolling(server: McpServer, generation: int, status: Mapping[str, Any]) -> bool:
    """Whether the Deployment's status is about an earlier template, or pods of one are left."""
    return int(status.get("observedGeneration") or 0) < generation or not is_complete(server, status)


def missing_pods(
    server: McpServer, generation: int, status: Mapping[str, Any], pod_symptom: Symptom | None
) -> ConditionVerdict | None:
    """Verdict PartiallyInvalid of a server whose calls go to fewer pods than wanted, or to pods of an earlier spec,
    because other pods cannot start. None if no pod serves, or if no fault of the other pods is known.
    """
    available_pods = int(status.get("availableReplicas") or 0)
    if not available_pods or is_complete(server, status):
        return None
    fault = _refusal(server, status)
    if not fault and pod_symptom is not None and pod_symptom.cause != Cause.INSTALLING:
        fault = f"{pod_symptom.cause}: {pod_symptom.message}"
    fault = fault or _missed_deadline(generation, status)
    if not fault:
        return None
    wanted_pods = server.spec.effective_replicas
    state = (
        f"{available_pods} of {wanted_pods} pods are up"
        if available_pods < wanted_pods
        else "pods of an earlier spec serve"
    )
    return ConditionVerdict(True, Cause.PODS_MISSING, f"{state}, and others cannot start: {fault}")


def _refusal(server: McpServer, status: Mapping[str, Any]) -> str:
    """Why pods of the Deployment are refused; empty if they are not.

    Kubernetes keeps the message of the first refusal while pods of any ReplicaSet are refused, so the message may be
    about a ReplicaSet of an earlier spec. It is then not quoted, and ignored if all pods of the present spec exist.
    """
    failure = condition_of(status, "ReplicaFailure")
    if failure.get("status") != "True":
        return ""
    message = str(failure.get("message", ""))
    replica_set = _QUOTED.search(str(condition_of(status, "Progressing").get("message", "")))
    refused_pod = _REFUSED_POD.search(message)
    if replica_set is None or refused_pod is None or refused_pod[1].startswith(f"{replica_set[1]}-"):
        return f"pods cannot be created: {message}"
    if int(status.get("updatedReplicas") or 0) >= server.spec.effective_replicas:
        return ""
    command = f"kubectl describe replicaset {replica_set[1]} --namespace {server.metadata.namespace}"
    return f"pods cannot be created; {command} shows why"


def _missed_deadline(generation: int, status: Mapping[str, Any]) -> str:
    """The message that the Deployment missed its progress deadline; empty if it did not."""
    progress = condition_of(status, "Progressing")
    if int(status.get("observedGeneration") or 0) < generation or progress.get("reason") != "ProgressDeadlineExceeded":
        return ""
    return f"no pod became available in time: {str(progress.get('message', '')).rstrip('.')}"


def pod_count(server: McpServer, status: Mapping[str, Any]) -> PodCount:
    """Number of pods and their label selector."""
    selector = ",".join(f"{name}={value}" for name, value in sorted(selector_labels(server).items()))
    return PodCount(int(status.get("replicas") or 0), selector)


def rollout_revision(generation: int, status: Mapping[str, Any]) -> str:
    """Revision that changes when pods of a new template start, and when the last pod of the old template is gone."""
    updated_pods, total_pods = int(status.get("updatedReplicas") or 0), int(status.get("replicas") or 0)
    is_current = int(status.get("observedGeneration") or 0) >= generation
    template = "new" if is_current and updated_pods else "old"
    return f"{generation}:{template}:{'done' if updated_pods == total_pods else 'mixed'}"


def _was_up(server: McpServer) -> bool:
    """Whether the server's status already said that the present generation runs."""
    programmed = server.status.condition(ConditionType.PROGRAMMED)
    if programmed is None or programmed.status != "True":
        return False
    return programmed.observed_generation == server.metadata.generation
