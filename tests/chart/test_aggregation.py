"""The cluster's roles `view`, `edit` and `admin` with the chart's additional rights, on a real API server."""

from __future__ import annotations

from controlplane import PlaneFactory
from helmworld import Helm, manifests, of_kind
from waiting import until

KIND = "rbac.authorization.k8s.io"


def test_editors_of_a_namespace_declare_servers_there_and_no_more(private_plane: PlaneFactory, helm: Helm) -> None:
    plane = private_plane(controllers=True)
    roles = of_kind(helm.template(), "ClusterRole")
    plane.kubectl("apply", "-f", "-", stdin=manifests(roles))
    namespace = plane.create_namespace("team")
    other = plane.create_namespace("other")
    for role in ("view", "edit", "admin"):
        plane.kubectl("create", "rolebinding", role, f"--clusterrole={role}", f"--user={role}", "-n", namespace)

    def may(user: str, verb: str, resource: str, where: str = namespace) -> bool:
        kind, _, subresource = resource.partition("/")
        words = ("auth", "can-i", verb, f"{kind}.fairlead.dev", f"--subresource={subresource}", "-n", where)
        return plane.kubectl(*words, f"--as={user}", check=False).stdout.strip() == "yes"

    until("aggregated", lambda: may("edit", "create", "mcpservers") and may("admin", "create", "toolpolicies"))
    assert may("view", "list", "mcpservers")
    assert may("edit", "list", "toolpolicies")
    refused = [
        ("view", "create", "mcpservers", namespace),
        ("edit", "create", "mcpservers", other),
        ("edit", "patch", "mcpservers/status", namespace),
        ("edit", "create", "toolpolicies", namespace),
        ("admin", "create", "latencytiers", namespace),
        ("admin", "patch", "toolpolicies/status", namespace),
    ]
    assert [case for case in refused if may(*case)] == []
