"""Installations of several teams: Secrets are read only in `rbac.secretNamespaces`, and shared names cause a
warning."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from controlplane import ControlPlane, PlaneFactory
from fairlead_kube.client import Kube
from fairlead_operator.kube.preflight import CannotStart, check_cluster
from fairlead_operator.settings import Settings
from helmworld import NAMESPACE, Helm, Refused, environment, grants, of_kind, rendered_object
from operatorworld import World, configuration_of, running
from toolservers import sdk_server

pytestmark = pytest.mark.timeout(300)

READ = {("", "secrets", verb) for verb in ("get", "list", "watch")}
SECRET = {"metadata": {"name": "key", "labels": {"fairlead.dev/credential": "true"}}, "stringData": {"token": "t"}}
AUTH = {"bearer": {"secretRef": {"name": "key"}}}


@pytest.fixture
def plane(private_plane: PlaneFactory) -> ControlPlane:
    """An empty control plane, without Fairlead's CRDs."""
    return private_plane(controllers=True, crds=False)


def operator_account(plane: ControlPlane) -> dict[str, Any]:
    """Settings of an operator with the rights of the release's account."""
    user = f"system:serviceaccount:{NAMESPACE}:fairlead-operator"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated"]
    return {"kubeconfig": str(plane.kubeconfig_for(user, groups))}


async def test_secrets_are_read_in_the_namespaces_of_the_value_alone(plane: ControlPlane, tmp_path: Path) -> None:
    helm = Helm(tmp_path, plane)
    own, other = (World(plane, plane.create_namespace(name), NAMESPACE) for name in ("tools", "elsewhere"))
    with pytest.raises(Refused, match=r"rbac\.secretNamespaces names absent, and the cluster has no such namespace"):
        helm.install("--set", "rbac.secretNamespaces={tools,absent}")
    notes = helm.install("--set", f"rbac.secretNamespaces={{tools,{NAMESPACE}}}")
    assert "Names: servers of all namespaces share prefixes (servers.prefixStyle is name)" in notes
    apart = helm.upgrade("--reset-then-reuse-values", "--set", "servers.prefixStyle=namespace-name")
    assert "Names:" not in apart
    plane.await_definitions()
    for world in (own, other):
        assert world.request("POST", world.path("secrets"), SECRET)[0] == 201
    account = operator_account(plane)
    for namespace, allowed in (("tools", "yes"), ("elsewhere", "no")):
        words = ("auth", "can-i", "list", "secrets", "-n", namespace, "--kubeconfig", account["kubeconfig"])
        assert plane.kubectl(*words, check=False).stdout.strip() == allowed
    async with aclosing(Kube.connect(await configuration_of(plane, account["kubeconfig"]))) as kube:
        await check_cluster(kube, NAMESPACE, secret_namespaces=("tools",))
        with pytest.raises(CannotStart, match="may not list secrets"):
            await check_cluster(kube, NAMESPACE)
    async with sdk_server() as url, running(own, secret_namespaces=("tools",), **account):
        for world in (own, other):
            world.create("demo", {"url": url, "auth": AUTH})
        await own.until("Ready", lambda: own.is_("demo", "Ready", "True"))
        await other.until("told", lambda: other.is_("demo", "ResolvedRefs", "False", "SecretsNotReadable"))
        message = other.condition("demo", "ResolvedRefs")["message"]
    assert "the operator may not read Secrets of namespace elsewhere" in message
    assert "rbac.secretNamespaces" in message
    helm.upgrade("--reset-then-reuse-values", "--set", "rbac.secretNamespaces=null")
    question = ("auth", "can-i", "list", "secrets", "-n", "elsewhere", "--kubeconfig", account["kubeconfig"])
    assert plane.kubectl(*question, check=False).stdout.strip() == "yes", "a value is taken back"


def test_the_value_moves_the_right_from_the_whole_cluster_to_roles_and_reaches_the_operator(helm: Helm) -> None:
    name = f"fairlead-{NAMESPACE}-operator"
    assert grants(rendered_object(helm.template(), "ClusterRole", name)) >= READ
    manifests = helm.template("--set", "rbac.secretNamespaces={a,b,a}")
    assert all("secrets" not in {resource for _, resource, _ in grants(r)} for r in of_kind(manifests, "ClusterRole"))
    assert grants(rendered_object(helm.template("--set", "rbac.secretNamespaces=null"), "ClusterRole", name)) >= READ
    roles = [r for r in of_kind(manifests, "Role") if r["metadata"]["name"] == f"{name}-secrets"]
    assert [role["metadata"]["namespace"] for role in roles] == ["a", "b"]
    assert all(grants(role) == READ for role in roles)
    variables = {k: v for k, v in environment(manifests, "operator").items() if isinstance(v, str)}
    assert Settings.from_env(variables).release.secret_namespaces == ("a", "b", "a")
    with pytest.raises(Refused, match=r"rbac\.secretNamespaces does nothing with watchNamespace"):
        helm.template("--set", "rbac.secretNamespaces={a},watchNamespace=a")


def test_the_retention_of_prefixes_reaches_the_operator(helm: Helm) -> None:
    variables = environment(helm.template("--set", "servers.prefixRetentionSeconds=0"), "operator")
    assert float(variables["FAIRLEAD_PREFIX_RETENTION_SECONDS"]) == 0
    assert float(environment(helm.template(), "operator")["FAIRLEAD_PREFIX_RETENTION_SECONDS"]) == 86400
