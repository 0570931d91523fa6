"""Kinds of Kubernetes objects, with their API group, version and URL. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from fairlead_api.meta import GROUP, VERSION

Json = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Kind:
    """A kind of Kubernetes objects: the parts of its URLs, its `apiVersion` and its `kind`."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    page: int = 500
    """Objects per page of a list."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """URL path of a collection, an object or a subresource; without `namespace`, a collection of all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        steps = [root]
        if self.namespaced and namespace is not None:
            steps += ["namespaces", namespace]
        steps.append(self.plural)
        steps += [step for step in (name, subresource) if step is not None]
        return "/".join(steps)

    def display_name(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """Description of a collection, an object or a subresource for messages, such as `mcpservers/status demo in
        namespace team`.
        """
        resource = f"{self.plural}/{subresource}" if subresource else self.plural
        location = f"in namespace {namespace}" if self.namespaced and namespace else ""
        return " ".join(word for word in (resource, name, location) if word)


@dataclass(frozen=True)
class Scope(Generic[T]):
    """Objects of one kind to list and watch, decoded as `model`. `namespace` None means all namespaces."""

    kind: Kind
    model: type[T]
    namespace: str | None = None
    selector: str = ""
    """Label selector."""
    name: str = ""
    """Name of the only object; empty for all objects."""
    fields: str = ""
    """Further field selectors, in addition to `name`."""

    def __str__(self) -> str:
        return self.kind.display_name(self.namespace, self.name)

    def query(self) -> list[tuple[str, str]]:
        fields = ",".join(filter(None, (self.name and f"metadata.name={self.name}", self.fields)))
        selectors = {"labelSelector": self.selector, "fieldSelector": fields}
        return [(parameter, value) for parameter, value in selectors.items() if value]


MCP_SERVERS: Final = Kind(GROUP, VERSION, "mcpservers", "McpServer")
LATENCY_TIERS: Final = Kind(GROUP, VERSION, "latencytiers", "LatencyTier", namespaced=False)
TOOL_POLICIES: Final = Kind(GROUP, VERSION, "toolpolicies", "ToolPolicy")
OWN_KINDS: Final = (MCP_SERVERS, LATENCY_TIERS, TOOL_POLICIES)

DEPLOYMENTS: Final = Kind("apps", "v1", "deployments", "Deployment")
JOBS: Final = Kind("batch", "v1", "jobs", "Job")
PODS: Final = Kind("", "v1", "pods", "Pod")
SERVICES: Final = Kind("", "v1", "services", "Service")
SERVICE_ACCOUNTS: Final = Kind("", "v1", "serviceaccounts", "ServiceAccount")
NETWORK_POLICIES: Final = Kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
DISRUPTION_BUDGETS: Final = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
WORKLOAD_KINDS: Final = (SERVICE_ACCOUNTS, SERVICES, NETWORK_POLICIES, DISRUPTION_BUDGETS, DEPLOYMENTS)
"""Kinds in the order in which they are applied: first what pods need, then pods."""
DOMAIN_POLICIES: Final = Kind("cilium.io", "v2", "ciliumnetworkpolicies", "CiliumNetworkPolicy")
"""Policies about host names, for clusters with Cilium."""

BULKY_PAGE: Final = 50
"""Objects per page of kinds whose objects may have 1 MiB each."""
CONFIG_MAPS: Final = Kind("", "v1", "configmaps", "ConfigMap", page=BULKY_PAGE)
SECRETS: Final = Kind("", "v1", "secrets", "Secret", page=BULKY_PAGE)
EVENTS: Final = Kind("events.k8s.io", "v1", "events", "Event")
LEASES: Final = Kind("coordination.k8s.io", "v1", "leases", "Lease")
CUSTOM_RESOURCE_DEFINITIONS: Final = Kind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
SELF_SUBJECT_ACCESS_REVIEWS: Final = Kind(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
SELF_SUBJECT_REVIEWS: Final = Kind(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
TOKEN_REVIEWS: Final = Kind("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)


def is_newer(version: str, other: str) -> bool:
    """Whether one version of an object is newer than another.

    Resource versions of one kind are compared as numbers. If they are not numbers, any other version counts as newer.
    """
    return int(version) > int(other) if version.isdigit() and other.isdigit() else version != other


def is_older(version: str, other: str) -> bool:
    """Whether one version of an object is certainly older than another. False if they are not numbers."""
    return version.isdigit() and other.isdigit() and int(version) < int(other)
