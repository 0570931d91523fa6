"""The rights in operator/rbac.yaml are those that the operator needs: with exactly them it does all its work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from controlplane import REPOSITORY
from fairlead_operator.kube.client import Kube
from fairlead_operator.kube.connection import CannotStart, check_cluster
from fairlead_operator.kube.credentials import store_names
from operatorworld import World, configuration_of, running
from toolservers import sdk_server

MANIFEST = REPOSITORY / "operator" / "rbac.yaml"


@pytest.fixture
def account(world: World) -> Iterator[Path]:
    """A kubeconfig of the operator's ServiceAccount, with the manifest applied to this world's release."""
    manifest = MANIFEST.read_text().replace("fairlead-system", world.release)
    world.plane.apply(manifest, namespace=world.release)
    user = f"system:serviceaccount:{world.release}:fairlead-operator"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{world.release}", "system:authenticated"]
    yield world.plane.kubeconfig_for(user, groups)
    world.plane.kubectl("-n", world.release, "delete", "--ignore-not-found", "-f", "-", "--wait=false", stdin=manifest)


async def test_the_operator_does_all_its_work_with_exactly_the_rights_of_the_manifest(
    world: World, account: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = {"metadata": {"name": "key", "labels": {"fairlead.dev/credential": "true"}}, "stringData": {"token": "t"}}
    world.request("POST", world.path("secrets"), secret)
    async with sdk_server() as url, running(world, kubeconfig=str(account)):
        world.hosts.ports[f"pods.{world.namespace}.svc"] = int(url.rsplit(":", 1)[1].split("/")[0])
        world.create("remote", {"url": url, "auth": {"bearer": {"secretRef": {"name": "key"}}}})
        world.create("pods", {"image": "registry.example/demo:1", "replicas": 2})
        await world.until("a Deployment", lambda: world.get(world.path("deployments", "pods")))
        world.pods_are("pods", 1)
        await world.until("remote Ready", lambda: world.is_("remote", "Ready", "True"))
        await world.until("pods Ready", lambda: world.is_("pods", "Ready", "True"))
        world.patch_server("pods", {"spec": {"replicas": 1}})
        gone = world.path("poddisruptionbudgets", "pods")
        await world.until("the budget removed", lambda: world.get(gone) is None)
        world.request("DELETE", world.server_path("remote"))
        await world.until("no catalog", lambda: world.catalog("remote") is None)
    told = [record.getMessage() for record in caplog.records if "orbidden" in record.getMessage()]
    assert told == []


async def test_the_start_says_which_right_is_missing_and_where_it_is_granted(world: World) -> None:
    nobody = world.plane.kubeconfig_for("nobody", ["system:authenticated"])
    kube = Kube.connect(await configuration_of(world.plane, str(nobody)))
    try:
        with pytest.raises(CannotStart, match=r"may not watch mcpservers: grant the rights in operator/rbac.yaml"):
            await check_cluster(kube, world.release)
    finally:
        await kube.aclose()


def test_the_gateway_may_read_every_secret_that_credentials_are_kept_in_and_no_other() -> None:
    roles = [d for d in yaml.safe_load_all(MANIFEST.read_text()) if d["kind"] == "Role"]
    gateway = next(role for role in roles if role["metadata"]["name"] == "fairlead-gateway")
    (rule,) = [rule for rule in gateway["rules"] if rule["resources"] == ["secrets"]]
    assert rule["resourceNames"] == list(store_names())
