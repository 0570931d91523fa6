"""The installation of a release of one namespace by somebody who has no right in the cluster."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from controlplane import REPOSITORY, ControlPlane, PlaneFactory
from helmworld import Helm, Refused, get
from page_reader import blocks

pytestmark = pytest.mark.timeout(300)

PAGE = (REPOSITORY / "docs" / "install" / "cluster.md").read_text()
SECTION = PAGE.partition("## By the administrator of a namespace\n")[2].partition("\n## ")[0]

ADMIN = "oldest-admin"


def oldest_admin(plane: ControlPlane) -> dict[str, Any]:
    """The ClusterRole `admin` as the oldest supported Kubernetes has it: without events of `events.k8s.io`."""
    rules = json.loads(plane.kubectl("get", "clusterrole", "admin", "-o", "json").stdout)["rules"]
    narrowed = [
        {**rule, "apiGroups": [group for group in rule["apiGroups"] if group != "events.k8s.io"]} for rule in rules
    ]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": ADMIN},
        "rules": [rule for rule in narrowed if rule["apiGroups"]],
    }


def test_an_administrator_of_two_namespaces_installs_a_release_with_the_role_of_the_page_and_not_without(
    private_plane: PlaneFactory, tmp_path: Path
) -> None:
    plane = private_plane(controllers=True, crds=True)
    (roles,) = blocks(SECTION, "yaml")
    _, install = blocks(SECTION, "sh")
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(oldest_admin(plane)))
    for namespace in ("team-a", "team-a-gw"):
        plane.create_namespace(namespace)
        plane.kubectl("create", "rolebinding", "ana", "--namespace", namespace, f"--clusterrole={ADMIN}", "--user=ana")
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
