"""Plans the objects of one server: which to apply, in order, and which to remove. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_kube.resources import (
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    DOMAIN_POLICIES,
    NETWORK_POLICIES,
    SERVICE_ACCOUNTS,
    SERVICES,
    WORKLOAD_KINDS,
    Kind,
)
from fairlead_operator.server import kube_manifests
from fairlead_operator.server.kube_manifests import ManifestContext


@dataclass(frozen=True)
class WorkloadPlan:
    """Objects of one server to apply and to remove."""

    apply: tuple[tuple[Kind, dict[str, Any]], ...]
    """Kind and manifest of each object to apply, in this order: the Deployment is last."""
    remove: tuple[Kind, ...]
    """Kinds of which the server must not have an object."""


def plan(server: McpServer, context: ManifestContext) -> WorkloadPlan:
    """The plan of an accepted server. For a server with a URL, which has no pods, all objects are removed."""
    expected_kinds = (*WORKLOAD_KINDS, *([DOMAIN_POLICIES] if context.domain_policies else ()))
    if server.spec.source_kind not in ("image", "package"):
        return WorkloadPlan((), expected_kinds)
    objects = [
        (SERVICE_ACCOUNTS, kube_manifests.service_account(server)),
        (SERVICES, kube_manifests.service(server)),
        (NETWORK_POLICIES, kube_manifests.network_policy(server, context)),
    ]
    if context.domain_policies and (domain_policy := kube_manifests.domain_policy(server, context)) is not None:
        objects.append((DOMAIN_POLICIES, domain_policy))
    if server.spec.effective_replicas > 1:
        objects.append((DISRUPTION_BUDGETS, kube_manifests.disruption_budget(server)))
    objects.append((DEPLOYMENTS, kube_manifests.deployment(server, context)))
    kinds = {kind for kind, _ in objects}
    return WorkloadPlan(tuple(objects), tuple(kind for kind in expected_kinds if kind not in kinds))
