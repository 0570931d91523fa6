"""The installation of a release of one namespace by somebody who has no right in the cluster."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from controlplane import REPOSITORY, ControlPlane, PlaneFactory
from helmworld import Helm, Refused, get
from page_reader import blocks

pytestmark = pytest.mark.timeout(300)

PAGE = (REPOSITORY / "docs" / "install" / "cluster.md").read_text()
SECTION = PAGE.partition("## By the administrator of a namespace\n")[2].partition("\n## ")[0]


def create_admin_of_older_releases(plane: ControlPlane) -> None:
    """Create a ClusterRole with the rules of `admin`, without those that Kubernetes 1.30 does not have."""
    (role,) = [item for item in get(plane, "clusterroles") if item["metadata"]["name"] == "admin"]
    rules = [rule for rule in role["rules"] if "events.k8s.io" not in rule.get("apiGroups", ())]
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "old-admin"}}
    plane.kubectl("apply", "-f", "-", stdin=json.dumps({**head, "rules": rules}))


def test_an_administrator_of_two_namespaces_installs_a_release_with_the_role_of_the_page_and_not_without(
    private_plane: PlaneFactory, tmp_path: Path
) -> None:
    plane = private_plane(controllers=True, crds=True)
    (roles,) = blocks(SECTION, "yaml")
    _, install = blocks(SECTION, "sh")
    create_admin_of_older_releases(plane)
    for namespace in ("team-a", "team-a-gw"):
        plane.create_namespace(namespace)
        plane.kubectl("create", "rolebinding", "ana", "--namespace", namespace, "--clusterrole=old-admin", "--user=ana")
    (tmp_path / "images.yaml").write_text('image: {repository: localhost/fairlead, tag: "1", variant: ""}\n')
    places = {
        "charts/fairlead": str(REPOSITORY / "charts" / "fairlead"),
        "dist/images.yaml": str(tmp_path / "images.yaml"),
    }
    words = [places.get(word, word) for word in shlex.split(install)[1:] if word != "--wait"]
    helm = Helm(tmp_path, plane)
    with pytest.raises(Refused, match=r"fairlead\.dev") as refused:
        helm(*words, "--kube-as-user", "ana")
    assert "cilium.io" in str(refused.value)
    assert "events.k8s.io" in str(refused.value)
    helm("uninstall", "team-a", "--namespace", "team-a-gw")

    plane.kubectl("apply", "-f", "-", stdin=roles)
    notes = helm(*words, "--kube-as-user", "ana")
    assert "kubectl get mcps -n team-a\n" in notes, "the installer may not list servers of all namespaces"
    assert len(get(plane, "deployments", "-n", "team-a-gw")) == 2
    for allowed in ("get mcpservers", "patch mcpservers/scale"):
        verb, resource = allowed.split()
        answer = plane.kubectl("auth", "can-i", verb, resource, "--as", "ana", "-n", "team-a")
        assert answer.stdout.strip() == "yes", allowed
