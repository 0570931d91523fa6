"""Desired objects of one server: those to apply, in order, and those that are no longer wanted. Pure."""

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
from fairlead_operator.server import manifests
from fairlead_operator.server.manifests import ManifestContext


@dataclass(frozen=True)
class WorkloadPlan:
    """`apply` in this order: what pods need first, pods last. `remove`: kinds of which the server has no object."""

    apply: tuple[tuple[Kind, dict[str, Any]], ...]
    remove: tuple[Kind, ...]


def plan(server: McpServer, context: ManifestContext) -> WorkloadPlan:
    """The plan of a server that was accepted. One that runs elsewhere has nothing here, whatever it had before."""
    expected_kinds = (*WORKLOAD_KINDS, *([DOMAIN_POLICIES] if context.domain_policies else ()))
    if server.spec.source_kind not in ("image", "package"):
        return WorkloadPlan((), expected_kinds)
    wanted = [
        (SERVICE_ACCOUNTS, manifests.service_account(server)),
        (SERVICES, manifests.service(server)),
        (NETWORK_POLICIES, manifests.network_policy(server, context)),
    ]
    if context.domain_policies and (named := manifests.domain_policy(server, context)) is not None:
        wanted.append((DOMAIN_POLICIES, named))
    if server.spec.effective_replicas > 1:
        wanted.append((DISRUPTION_BUDGETS, manifests.disruption_budget(server)))
    wanted.append((DEPLOYMENTS, manifests.deployment(server, context)))
    kinds = {kind for kind, _ in wanted}
    return WorkloadPlan(tuple(wanted), tuple(kind for kind in expected_kinds if kind not in kinds))
