"""The rights of operator/rbac.yaml and network-probe.yaml, one by one, and accounts of an API server that have them.

accounts = Accounts.of(world)          # applies the manifests to this world's release
... running(world, kubeconfig=str(accounts.operator)) ...
granted() - used(requests, world)      # must be empty
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from audit import Write
from controlplane import REPOSITORY
from fairlead_operator.kube.watched_lease import ALL_NAMESPACES, ONE_NAMESPACE
from operatorworld import World

MANIFEST = REPOSITORY / "operator" / "rbac.yaml"
NETWORK_PROBE = REPOSITORY / "operator" / "network-probe.yaml"
CLUSTER_SCOPED = frozenset({"latencytiers", "latencytiers/status"})
LEASE_OF_ALL = "all-namespaces"
"""Suffix of the names of roles for the Lease of an operator that watches all namespaces. This Lease is in a separate
namespace."""
Where = Literal["everywhere", "release", "default"]


@dataclass(frozen=True, order=True)
class Grant:
    """One verb on one resource. For named objects, the names do not matter."""

    account: str
    where: Where
    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.account} {self.where}: {self.verb} {self.resource}" + (f".{self.group}" if self.group else "")


def documents(*manifests: Path) -> list[dict[str, Any]]:
    """Objects of the manifests."""
    return [document for path in manifests for document in yaml.safe_load_all(path.read_text()) if document]


def granted_rights() -> set[Grant]:
    """All permissions in the manifests."""
    rules = set()
    for role in documents(MANIFEST, NETWORK_PROBE):
        if role["kind"] in ("ClusterRole", "Role"):
            name = role["metadata"]["name"]
            where: Where = "everywhere" if role["kind"] == "ClusterRole" else "release"
            account = name.removesuffix("-tiers").removesuffix("-network-probe")
            if name.endswith(LEASE_OF_ALL):
                where = "default"
                account = "fairlead-operator"
            for rule in role["rules"]:
                rules |= {
                    Grant(account, where, group, resource, verb)
                    for group in rule["apiGroups"]
                    for resource in rule["resources"]
                    for verb in rule["verbs"]
                }
    return rules


def used_rights(requests: Iterable[Write], world: World) -> set[Grant]:
    """All permissions that the two accounts of a release have used with success."""
    return {grant for request in requests if request.status not in (401, 403) for grant in _of(request, world)}


def refused_requests(requests: Iterable[Write], world: World) -> list[Write]:
    """All requests of these accounts that were refused."""
    return [request for request in requests if request.status in (401, 403) and list(_of(request, world))]


def _of(request: Write, world: World) -> Iterator[Grant]:
    start = f"system:serviceaccount:{world.release}:"
    if request.user.startswith(start):
        where: Where = "release" if request.namespace == world.release else "everywhere"
        if request.namespace == ALL_NAMESPACES[0]:
            where = "default"
        account = request.user.removeprefix(start)
        yield Grant(account, where, request.group, request.resource, request.verb)


@dataclass(frozen=True)
class Accounts:
    """Kubeconfigs of the two ServiceAccounts."""

    operator: Path
    gateway: Path

    @classmethod
    def of(cls, world: World, *, namespaced: bool = False, probes: bool = False) -> Accounts:
        """Apply the manifest. With `namespaced`, cluster-wide permissions are given only in the tenant's namespace.
        With `probes`, those of the network probe are included.
        """
        objects = documents(MANIFEST, *([NETWORK_PROBE] if probes else []))
        if namespaced:
            objects = [_narrow(each) for each in objects if each["metadata"].get("namespace") != ALL_NAMESPACES[0]]
        text = yaml.safe_dump_all(objects)
        text = text.replace("fairlead-system", world.release).replace("TENANT", world.namespace)
        world.plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)
        return cls(_account(world, "fairlead-operator"), _account(world, "fairlead-gateway"))


def _account(world: World, name: str) -> Path:
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{world.release}", "system:authenticated"]
    return world.plane.kubeconfig_for(f"system:serviceaccount:{world.release}:{name}", groups)


def _narrow(document: dict[str, Any]) -> dict[str, Any]:
    """A ClusterRole and its binding as a Role and RoleBinding, without cluster-scoped resources."""
    kind = document["kind"]
    if kind not in ("ClusterRole", "ClusterRoleBinding"):
        return document
    narrow = {**document, "kind": kind.removeprefix("Cluster")}
    narrow["metadata"] = {"name": f"{document['metadata']['name']}-servers", "namespace": "TENANT"}
    if kind == "ClusterRole":
        rules = [{**r, "resources": [x for x in r["resources"] if x not in CLUSTER_SCOPED]} for r in document["rules"]]
        narrow["rules"] = [rule for rule in rules if rule["resources"] and "leases" not in rule["resources"]]
        lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
        narrow["rules"].append({**lease, "verbs": ["create"]})
        narrow["rules"].append({**lease, "verbs": ["get", "update"], "resourceNames": [ONE_NAMESPACE]})
    else:
        narrow["roleRef"] = {**document["roleRef"], "kind": "Role", "name": narrow["metadata"]["name"]}
    return narrow
