"""Hosts by name in `spec.network.egress`, on an API server with Cilium's policies, and on one without."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from cilium import POLICIES, definition
from controlplane import ControlPlane
from operatorworld import World, running

SPEC = {
    "image": {"name": "registry.example/demo:1"},
    "network": {"egress": {"rules": [{"domainNames": ["api.example.com"], "ports": [443]}]}},
}


@pytest.fixture
def cilium(control_plane: ControlPlane) -> Iterator[None]:
    control_plane.apply(json.dumps(definition()))
    control_plane.await_definitions()
    yield
    control_plane.kubectl("delete", f"crd/{POLICIES}")


async def test_cilium_gets_a_policy_of_host_names_that_goes_with_them(world: World, cilium: None) -> None:
    path = f"/apis/cilium.io/v2/namespaces/{world.namespace}/ciliumnetworkpolicies/demo"
    async with running(world):
        world.create("demo", SPEC)
        made = await world.until("a policy", lambda: world.get(path))
        assert made is not None
        assert made["spec"]["egress"][1]["toFQDNs"] == [{"matchName": "api.example.com"}]
        assert made["spec"]["egressDeny"][0]["toCIDR"]
        (owner,) = made["metadata"]["ownerReferences"]
        assert owner["kind"] == "McpServer"
        await world.until("a Deployment", lambda: world.get(world.path("deployments", "demo")))
        world.request("DELETE", path)
        await world.until("put back", lambda: world.get(path))
        world.patch_server("demo", {"spec": {"network": None}})
        await world.until("gone", lambda: world.get(path) is None)


async def test_without_cilium_nothing_is_started_and_the_condition_says_what_to_do(world: World) -> None:
    async with running(world):
        world.create("demo", SPEC)
        await world.until("refused", lambda: world.is_("demo", "Programmed", "False"))
        assert "which require Cilium" in world.condition("demo", "Programmed")["message"]
        assert world.is_("demo", "Ready", "False")
        assert world.get(world.path("deployments", "demo")) is None
        world.patch_server("demo", {"spec": {"network": None}})
        await world.until("a Deployment", lambda: world.get(world.path("deployments", "demo")))
