"""Which kinds the operator touches, and where the API server keeps them, and in what version. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairlead_api.meta import GROUP, VERSION


@dataclass(frozen=True)
class Kind:
    """One kind of object: enough to build its URL and the head of its manifest."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """URL path of a collection, an object or a subresource; a namespace of None spans all of them."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        steps = [root]
        if self.namespaced and namespace is not None:
            steps += ["namespaces", namespace]
        steps.append(self.plural)
        steps += [step for step in (name, subresource) if step is not None]
        return "/".join(steps)


MCP_SERVERS: Final = Kind(GROUP, VERSION, "mcpservers", "McpServer")
LATENCY_TIERS: Final = Kind(GROUP, VERSION, "latencytiers", "LatencyTier", namespaced=False)
TOOL_POLICIES: Final = Kind(GROUP, VERSION, "toolpolicies", "ToolPolicy")
OWN_KINDS: Final = (MCP_SERVERS, LATENCY_TIERS, TOOL_POLICIES)

DEPLOYMENTS: Final = Kind("apps", "v1", "deployments", "Deployment")
PODS: Final = Kind("", "v1", "pods", "Pod")
SERVICES: Final = Kind("", "v1", "services", "Service")
SERVICE_ACCOUNTS: Final = Kind("", "v1", "serviceaccounts", "ServiceAccount")
NETWORK_POLICIES: Final = Kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
DISRUPTION_BUDGETS: Final = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
WORKLOAD_KINDS: Final = (SERVICE_ACCOUNTS, SERVICES, NETWORK_POLICIES, DISRUPTION_BUDGETS, DEPLOYMENTS)
"""In the order in which they are applied: what pods need first, pods last."""

CONFIG_MAPS: Final = Kind("", "v1", "configmaps", "ConfigMap")
SECRETS: Final = Kind("", "v1", "secrets", "Secret")
EVENTS: Final = Kind("events.k8s.io", "v1", "events", "Event")
LEASES: Final = Kind("coordination.k8s.io", "v1", "leases", "Lease")


def newer(version: str, than: str) -> bool:
    """Whether one reading of an object is newer than another.

    Resource versions of one kind compare as numbers where they are numbers; else whatever came last counts.
    """
    return int(version) > int(than) if version.isdigit() and than.isdigit() else version != than


def older(version: str, than: str) -> bool:
    """Whether one reading is certainly older than another: answers and events of one object come in any order."""
    return version.isdigit() and than.isdigit() and int(version) < int(than)
