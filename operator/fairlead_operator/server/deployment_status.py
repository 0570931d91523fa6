"""Makes verdicts about a server from the status of its Deployment. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.condition_types import ConditionType
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_operator.ports import ConditionVerdict, PodCount
from fairlead_operator.server.kube_manifests import selector_labels
from fairlead_operator.server.symptoms import Symptom

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
ALL_UP: Final = ConditionVerdict(True, Cause.PROGRAMMED, "the server's pods are up")
NO_POD: Final = ConditionVerdict(False, Cause.UNREACHABLE, "none of the server's pods is available")


def judge(
    server: McpServer, generation: int, status: Mapping[str, Any]
) -> tuple[ConditionVerdict, ConditionVerdict | None]:
    """Verdict Programmed, and the verdict Verified of a server that was up before and is down (None for any other).

    `generation` is the generation of the Deployment: a status of an older generation says nothing about the present
    rollout. If pods were up and no longer are, `Programmed` stays True, because the objects are as desired; only the
    server does not answer.
    """
    wanted = server.spec.effective_replicas
    if wanted == 0:
        return ConditionVerdict(False, Cause.STOPPED, "spec.replicas is 0"), None
    available = int(status.get("availableReplicas") or 0)
    if available >= wanted:
        return ALL_UP, None
    conditions = {condition.get("type"): condition for condition in status.get("conditions") or ()}
    failed = conditions.get("ReplicaFailure") or {}
    refusal = f"pods cannot be created: {failed.get('message', '')}" if failed.get("status") == "True" else ""
    if available > 0:
        some = f"{available} of {wanted} pods are up"
        return ConditionVerdict(True, Cause.PROGRAMMED, f"{some}: {refusal}" if refusal else some), None
    if refusal:
        return ConditionVerdict(False, Cause.DEPLOYMENT_FAILED, refusal), None
    progress = conditions.get("Progressing")
    current = int(status.get("observedGeneration") or 0) >= generation
    if current and progress is not None and progress.get("reason") == "ProgressDeadlineExceeded":
        message = f"no pod became available in time: {str(progress.get('message', '')).rstrip('.')}"
        return ConditionVerdict(False, Cause.DEPLOYMENT_FAILED, message), None
    if _was_up(server):
        return ConditionVerdict(True, Cause.PROGRAMMED, "the server was started"), NO_POD
    return ConditionVerdict(None, Cause.DEPLOYING, "no pod is available yet"), None


def explain(
    verdict: ConditionVerdict, down: ConditionVerdict | None, pod_symptom: Symptom | None
) -> tuple[ConditionVerdict, ConditionVerdict | None]:
    """The two verdicts of `judge`, with a pod's symptom added. While another pod is available, only the message of
    the verdict has the symptom; if as many are available as the server has replicas, it is ignored.
    """
    if pod_symptom is None or verdict.cause == Cause.STOPPED:
        return verdict, down
    if down is not None:
        return verdict, ConditionVerdict(False, down.cause, f"{down.message}: {pod_symptom.message}")
    if verdict == ALL_UP:
        return verdict, down
    if verdict.ok is True:
        return dataclasses.replace(verdict, message=f"{verdict.message}: {pod_symptom.message}"), down
    if verdict.ok is False and not pod_symptom.hopeless and pod_symptom.cause != Cause.INSTALLING:
        return dataclasses.replace(verdict, message=f"{verdict.message}: {pod_symptom.message}"), down
    return ConditionVerdict(False if pod_symptom.hopeless else None, pod_symptom.cause, pod_symptom.message), down


def pod_count(server: McpServer, status: Mapping[str, Any]) -> PodCount:
    """Number of pods and their label selector."""
    selector = ",".join(f"{name}={value}" for name, value in sorted(selector_labels(server).items()))
    return PodCount(int(status.get("replicas") or 0), selector)


def rollout(generation: int, status: Mapping[str, Any]) -> str:
    """Revision that changes when pods of a new template start, and when the last pod of the old template is gone."""
    updated, total = int(status.get("updatedReplicas") or 0), int(status.get("replicas") or 0)
    current = int(status.get("observedGeneration") or 0) >= generation
    return f"{generation}:{'new' if current and updated else 'old'}:{'done' if updated == total else 'mixed'}"


def _was_up(server: McpServer) -> bool:
    """Whether the server's status already said that the present generation runs."""
    shown = server.status.condition(ConditionType.PROGRAMMED)
    return shown is not None and shown.status == "True" and shown.observed_generation == server.metadata.generation
