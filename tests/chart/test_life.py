"""The chart on a real API server: installed on an empty cluster, upgraded, uninstalled, installed again.

The cluster runs no pods. If a test needs the operator, it runs in this process, with the rights and the token of the
release's account.
"""

from __future__ import annotations

import json
import shutil
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from controlplane import ControlPlane, PlaneFactory
from fairlead_api.documents.codec import RULES_NAME, decode
from fairlead_api.documents.rules import Rules
from fairlead_kube.client import Kube
from fairlead_operator.kube.owners import service_references
from helmworld import CHART, NAMESPACE, Helm, Refused, get, rendered_object
from operatorworld import World, configuration_of, running
from toolservers import sdk_server
from waiting import until

pytestmark = pytest.mark.timeout(300)

KINDS = (
    "deployments,replicasets,pods,services,endpointslices,secrets,configmaps,leases,roles,rolebindings,"
    "poddisruptionbudgets,networkpolicies,horizontalpodautoscalers"
)
CLUSTER_WIDE = "clusterroles,clusterrolebindings"
PLURALS = ("mcpservers", "latencytiers", "toolpolicies")
OURS = ("-l", "app.kubernetes.io/part-of=fairlead")


@pytest.fixture
def plane(private_plane: PlaneFactory) -> ControlPlane:
    """An empty control plane, without Fairlead's CRDs."""
    return private_plane(controllers=True, crds=False)


@pytest.fixture
def helm(plane: ControlPlane, tmp_path: Path) -> Helm:
    return Helm(tmp_path, plane)


def objects_in(plane: ControlPlane, namespace: str) -> list[str]:
    """Objects of a namespace, without those that the cluster creates in every namespace."""
    left = [f"{item['kind']} {item['metadata']['name']}" for item in get(plane, KINDS, "-n", namespace)]
    return sorted(set(left) - {"ConfigMap kube-root-ca.crt"})


def mcp_server(name: str, **spec: object) -> str:
    head = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": name}}
    return json.dumps({**head, "spec": {"url": "http://a.example/mcp", **spec}})


def is_listed(plane: ControlPlane, plural: str) -> bool:
    """Whether the API server lists the objects of a kind. Until then, deleting the definition hangs, because the API
    server cannot delete its objects, and retries only after 5, 10, 20, 40 and 80 seconds.
    """
    return plane.request("GET", f"/apis/fairlead.dev/v1alpha1/{plural}")[0] == 200


def crds(plane: ControlPlane) -> int:
    return len(get(plane, "crds"))


def test_a_release_leaves_the_definitions_alone_and_can_be_installed_again(plane: ControlPlane, helm: Helm) -> None:
    helm.install()
    plane.await_definitions()
    assert {item["metadata"]["name"] for item in get(plane, "deployments", "-n", NAMESPACE)} == {
        "fairlead-operator",
        "fairlead-gateway",
    }
    plane.apply(mcp_server("kept"))

    helm.uninstall()
    until("nothing left", lambda: objects_in(plane, NAMESPACE) == [], seconds=60)
    assert get(plane, CLUSTER_WIDE, *OURS) == []
    assert crds(plane) == 3
    assert len(get(plane, "mcpservers", "-n", "default")) == 1

    helm.install()
    assert len(get(plane, "deployments", "-n", NAMESPACE)) == 2
    assert len(get(plane, "mcpservers", "-n", "default")) == 1


def test_without_keep_the_definitions_go_as_well(plane: ControlPlane, helm: Helm) -> None:
    helm.install("--set", "crds.keep=false")
    assert crds(plane) == 3
    until("all kinds listed", lambda: all(map(partial(is_listed, plane), PLURALS)), seconds=60)
    helm.uninstall()
    until("no definitions", lambda: crds(plane) == 0, seconds=60)
    until("nothing left", lambda: objects_in(plane, NAMESPACE) == [], seconds=60)


def test_an_upgrade_keeps_the_keys_and_changes_what_is_set(plane: ControlPlane, helm: Helm) -> None:
    """The Secret belongs to the operator, which does not run here. Helm does not know of it."""
    helm.install()
    plane.kubectl("create", "secret", "generic", "fairlead", "-n", NAMESPACE, "--from-literal=pullToken=given")
    secret = ("secret", "fairlead", "-n", NAMESPACE, "-o", "jsonpath={.data}")
    before = plane.kubectl("get", *secret).stdout
    for _ in range(2):
        helm.upgrade("--set", "gateway.replicas=3", "--set", "gateway.settings.callTimeout=90")
        assert plane.kubectl("get", *secret).stdout == before
    gateway = rendered_object(get(plane, "deployments", "-n", NAMESPACE), "Deployment", "fairlead-gateway")
    assert gateway["spec"]["replicas"] == 3
    (container,) = gateway["spec"]["template"]["spec"]["containers"]
    assert {"name": "FAIRLEAD_CALL_TIMEOUT", "value": "90"} in container["env"]


@pytest.mark.parametrize("applied", ["true", "false"], ids=["server side", "client side"])
def test_an_autoscaler_takes_over_the_number_of_gateways_that_there_is(
    plane: ControlPlane, helm: Helm, applied: str
) -> None:
    def replicas() -> int:
        gateway = rendered_object(get(plane, "deployments", "-n", NAMESPACE), "Deployment", "fairlead-gateway")
        return int(gateway["spec"]["replicas"])

    side = f"--server-side={applied}"
    with_autoscaler = ("--set", "gateway.autoscaling.enabled=true", side)
    helm.install("--set", "gateway.replicas=3", side)
    helm.upgrade(*with_autoscaler)
    assert len(get(plane, "horizontalpodautoscalers", "-n", NAMESPACE)) == 1
    helm.upgrade(*with_autoscaler)
    assert replicas() == 3, "nobody has scaled it yet"
    plane.kubectl("scale", "deployment/fairlead-gateway", "-n", NAMESPACE, "--replicas=5")
    for _ in range(2):
        helm.upgrade(*with_autoscaler)
        assert replicas() == 5, "what the autoscaler said, which is the manager of the field"


def test_an_upgrade_brings_the_definitions_along_and_loses_no_server(
    plane: ControlPlane, helm: Helm, tmp_path: Path
) -> None:
    """The earlier chart's CRD lacks a field of the current one, as in earlier releases."""
    earlier = tmp_path / "fairlead"
    shutil.copytree(CHART, earlier)
    (earlier / "Chart.yaml").write_text((CHART / "Chart.yaml").read_text().replace("version: 0.1.0", "version: 0.0.9"))
    definition = earlier / "files" / "crds" / "fairlead.dev_mcpservers.yaml"
    text = definition.read_text()
    assert "\n              pin:\n" in text
    definition.write_text(text.replace("\n              pin:\n", "\n              pinOfOld:\n"))
    helm.install(chart=earlier)
    plane.await_definitions()
    create = ("-n", "default", "create", "--validate=strict", "-f", "-")
    refusal = plane.kubectl(*create, stdin=mcp_server("kept", pin=True), check=False).stderr
    assert 'unknown field "spec.pin"' in refusal
    plane.kubectl(*create, stdin=mcp_server("kept"))

    helm.upgrade()
    patch = ("patch", "mcps", "kept", "--type=merge", "-p", '{"spec": {"pin": true}}', "-o", "jsonpath={.spec.pin}")
    until("the field known", lambda: plane.kubectl(*patch, check=False).stdout == "true", seconds=20)


def test_a_second_release_in_a_namespace_is_refused(plane: ControlPlane, helm: Helm) -> None:
    helm.install()
    with pytest.raises(Refused, match="the release fairlead is in the namespace fairlead-system already"):
        helm("install", "second", CHART, "--namespace", NAMESPACE, "--set", "crds.install=false")
    helm.upgrade()
    where = ("--namespace", "elsewhere", "--create-namespace", "--set", "crds.install=false,watchNamespace=elsewhere")
    helm("install", "fairlead", CHART, *where)
    assert len(get(plane, "deployments", "-n", "elsewhere")) == 2


def test_samples_come_with_an_upgrade_and_go_with_the_release(plane: ControlPlane, helm: Helm) -> None:
    with pytest.raises(Refused, match="install without them"):
        helm.install("--set", "samples.demo=true")
    helm.install()
    plane.await_definitions()
    helm.upgrade("--reset-then-reuse-values", "--set", "samples.demo=true,samples.time=true")
    assert {item["metadata"]["name"] for item in get(plane, "mcps", "-n", NAMESPACE)} == {"chandler", "time"}
    helm.uninstall()
    assert get(plane, "mcps", "-n", NAMESPACE) == []


def account(plane: ControlPlane, folder: Path) -> dict[str, Any]:
    """Settings of an operator with the rights and the token of the release's account."""
    user = f"system:serviceaccount:{NAMESPACE}:fairlead-operator"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated"]
    token = folder / "token"
    token.write_text(plane.kubectl("create", "token", "fairlead-operator", "-n", NAMESPACE).stdout)
    return {"kubeconfig": str(plane.kubeconfig_for(user, groups)), "owner_token": str(token)}


async def test_objects_that_the_operator_wrote_go_with_the_release(
    plane: ControlPlane, helm: Helm, tmp_path: Path
) -> None:
    helm.install()
    plane.await_definitions()
    world = World(plane, plane.create_namespace("tools"), NAMESPACE)
    secret = {"metadata": {"name": "key", "labels": {"fairlead.dev/credential": "true"}}, "stringData": {"token": "t"}}
    world.request("POST", world.path("secrets"), secret)
    own = {**account(plane, tmp_path), "installation_secret": "fairlead"}
    async with sdk_server() as url, running(world, **own):
        world.create("remote", {"url": url, "auth": {"bearer": {"secretRef": {"name": "key"}}}})
        await world.until("remote Ready", lambda: world.is_("remote", "Ready", "True"), seconds=40)
        await world.until("a catalog", lambda: world.catalog("remote"))
    written = set(objects_in(plane, NAMESPACE))
    assert {"Lease fairlead-operator", "Secret fairlead"} <= written
    assert any(name.startswith("Secret fairlead-credentials-") for name in written)

    helm.uninstall()
    until("nothing left", lambda: objects_in(plane, NAMESPACE) == [], seconds=60)
    assert {item["metadata"]["name"] for item in get(plane, "latencytiers")} == {"deep", "fast", "standard"}


@pytest.mark.parametrize("earlier", [False, True], ids=["written with both owners", "written by an earlier operator"])
async def test_written_objects_outlive_a_change_of_the_account_and_go_with_the_release(
    plane: ControlPlane, helm: Helm, tmp_path: Path, *, earlier: bool
) -> None:
    """An earlier operator's objects have the account as their only owner, and nothing of them changes afterwards."""
    helm.install()
    plane.await_definitions()
    world = World(plane, plane.create_namespace("tools"), NAMESPACE)

    def owned_by(kind: str) -> list[str]:
        """Objects with an owner of this kind."""
        items = get(plane, "secrets,configmaps,leases", "-n", NAMESPACE)
        references = [(item["metadata"]["name"], item["metadata"].get("ownerReferences") or ()) for item in items]
        return [name for name, refs in references if any(reference["kind"] == kind for reference in refs)]

    own = {**account(plane, tmp_path), "installation_secret": "fairlead"}
    async with aclosing(Kube.connect(await configuration_of(plane, own["kubeconfig"]))) as kube:
        owners = await service_references(kube, NAMESPACE, "fairlead-operator")
    secret = {"metadata": {"name": "key", "labels": {"fairlead.dev/credential": "true"}}, "stringData": {"token": "t"}}
    world.request("POST", world.path("secrets"), secret)
    async with sdk_server() as url:
        async with running(world, owners=() if earlier else owners, **own):
            world.create("remote", {"url": url, "auth": {"bearer": {"secretRef": {"name": "key"}}}})
            await world.until("a catalog", lambda: world.catalog("remote"))
        if earlier:
            assert owned_by("Service") == []
            async with running(world, owners=owners, **own):
                await world.until("adopted", lambda: owned_by("Service") == owned_by("ServiceAccount"))
    before = objects_in(plane, NAMESPACE)
    assert any(name.startswith("Secret fairlead-credentials-") for name in before)
    keys = get(plane, "secrets", "-n", NAMESPACE, "--field-selector", "metadata.name=fairlead")[0]["data"]

    assert owned_by("Service") == owned_by("ServiceAccount") != []
    helm.upgrade("--set", "operator.serviceAccount.create=false,operator.serviceAccount.name=ours")
    until("the account owns nothing any more", lambda: owned_by("ServiceAccount") == [], seconds=60)
    assert set(before) <= set(objects_in(plane, NAMESPACE))
    assert get(plane, "secrets", "-n", NAMESPACE, "--field-selector", "metadata.name=fairlead")[0]["data"] == keys

    helm.uninstall()
    until("nothing left", lambda: objects_in(plane, NAMESPACE) == [], seconds=60)


async def test_an_operator_of_one_namespace_needs_no_right_in_another(
    plane: ControlPlane, helm: Helm, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    team = plane.create_namespace("team")
    other = plane.create_namespace("other")
    helm.install("--set", "watchNamespace=team")
    plane.await_definitions()
    world = World(plane, team, NAMESPACE)
    secret = {"metadata": {"name": "key", "labels": {"fairlead.dev/credential": "true"}}, "stringData": {"token": "t"}}
    world.request("POST", world.path("secrets"), secret)
    async with sdk_server() as url, running(world, watch_namespace=team, **account(plane, tmp_path)):
        plane.apply(mcp_server("elsewhere", url=url), namespace=other)
        world.create("remote", {"url": url, "auth": {"bearer": {"secretRef": {"name": "key"}}}})
        world.create("pods", {"image": {"name": "registry.example/demo:1"}})
        await world.until("remote Ready", lambda: world.is_("remote", "Ready", "True"), seconds=40)
        await world.until("a Deployment", lambda: world.get(world.path("deployments", "pods")))
        await world.until("a catalog", lambda: world.catalog("remote"))
    assert "status" not in get(plane, "mcps", "-n", other)[0]
    told = [record.getMessage() for record in caplog.records]
    assert [line for line in told if "orbidden" in line] == []
    assert any(line.startswith("the operator may not read LatencyTiers") for line in told)
    rules = decode(world.documents()[RULES_NAME])
    assert isinstance(rules, Rules)
    assert {tier.name for tier in rules.tiers} == {"fast", "standard", "deep"}
