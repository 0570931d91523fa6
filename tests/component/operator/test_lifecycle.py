"""Restarts, outages, leadership and deletion, with real API servers that the tests may kill."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial

import pytest

from controlplane import ControlPlane, PlaneFactory
from fairlead_api.documents.codec import SERVERS_NAME, encode
from fairlead_api.documents.servers import Servers
from fairlead_operator.app import Operator
from operatorworld import Json, World, running
from toolservers import sdk_server

WATCHED = ("serviceaccounts", "services", "networkpolicies", "deployments")


@pytest.fixture
def own_world(private_plane: PlaneFactory) -> World:
    """A world with a control plane of its own, which the test may kill."""
    plane = private_plane()
    return World(plane, plane.create_namespace("tenant"), plane.create_namespace("release"))


NO_ENTRIES = encode(Servers())


def snapshot(world: World) -> dict[str, Json]:
    """All objects that the operator writes, except Lease and Events, with their versions and managed fields."""
    objects: dict[str, Json] = {}
    paths = [f"{world.path(plural)}" for plural in WATCHED]
    paths += [
        f"/apis/fairlead.dev/v1alpha1/namespaces/{world.namespace}/mcpservers",
        "/apis/fairlead.dev/v1alpha1/latencytiers",
        f"/api/v1/namespaces/{world.release}/configmaps",
        f"/api/v1/namespaces/{world.release}/secrets",
    ]
    for path in paths:
        status, listing = world.request("GET", path)
        assert status == 200, listing
        for item in listing["items"]:
            metadata = item["metadata"]
            identity = {name: metadata.get(name) for name in ("uid", "resourceVersion", "managedFields")}
            if path.endswith("latencytiers"):
                # its status changes with the number of tools
                identity = {"uid": metadata["uid"], "generation": metadata["generation"]}
            objects[f"{path}/{metadata['name']}"] = identity
    return objects


async def converge(world: World, url: str) -> None:
    """Create a server by URL with a credential and a server by image. Wait until both are Ready and the rules are
    published."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "key", "labels": {"fairlead.dev/credential": "true"}},
        "stringData": {"token": "s3cret"},
    }
    world.request("POST", world.path("secrets"), secret)
    world.hosts.ports[f"pods.{world.namespace}.svc"] = int(url.rsplit(":", 1)[1].split("/", maxsplit=1)[0])
    world.create("remote", {"url": url, "auth": {"bearer": {"secretRef": {"name": "key"}}}})
    world.create("pods", {"image": {"name": "registry.example/demo:1"}})
    await world.until("a Deployment", lambda: world.get(world.path("deployments", "pods")))
    world.pods_are("pods", 1)
    for name in ("remote", "pods"):
        await world.until(f"{name} Ready", partial(world.is_, name, "Ready", "True"))
    await world.until("rules", lambda: "fairlead-rules" in world.documents())
    await world.until("servers that are ready have no entry", lambda: world.documents().get(SERVERS_NAME) == NO_ENTRIES)


async def test_a_restarted_operator_loses_nothing_and_writes_nothing_again(world: World) -> None:
    async with sdk_server() as url:
        async with running(world):
            await converge(world, url)
        before = snapshot(world)
        async with running(world) as operator:
            await world.until("leading", lambda: operator.controller is not None)
            await world.until("two looks at each of two servers", lambda: looks(operator) >= 4)
        assert snapshot(world) == before


def looks(operator: Operator) -> float:
    """Number of reconciles of servers with the outcome Done. The second one of a server follows its discovery."""
    value = operator.telemetry.registry.get_sample_value("fairlead_operator_reconciles_total", {"outcome": "Done"})
    return value or 0.0


async def test_a_server_that_is_created_while_no_operator_runs_is_served_by_the_next(world: World) -> None:
    async with sdk_server() as url:
        world.create("early", {"url": url})
        async with running(world):
            await world.until("Ready", lambda: world.is_("early", "Ready", "True"))


async def test_a_server_that_is_deleted_while_no_operator_runs_loses_its_catalog_and_its_credential(
    world: World,
) -> None:
    async with sdk_server() as url:
        async with running(world):
            await converge(world, url)
        world.request("DELETE", world.server_path("remote"))
        async with running(world):
            await world.until("no catalog", lambda: world.catalog("remote") is None)
            await world.until("no credential", lambda: not credentials(world))
            assert world.catalog("pods") is not None


def credentials(world: World) -> Json:
    """All credentials that the operator has copied to the release's namespace."""
    _, listing = world.request("GET", f"/api/v1/namespaces/{world.release}/secrets")
    return {key: value for item in listing["items"] for key, value in (item.get("data") or {}).items()}


async def test_an_api_server_that_is_killed_and_comes_back_loses_and_re_creates_nothing(own_world: World) -> None:
    world = own_world
    plane = own_world.plane
    servers = world.config_map_path(SERVERS_NAME)
    async with sdk_server() as url, running(world) as operator:
        await converge(world, url)
        before = snapshot(world)
        plane.kill_apiserver()
        await world.until("no longer leading", lambda: operator.controller is None)
        looked = looks(operator)
        await asyncio.to_thread(plane.start_apiserver)
        await world.until("leading again", lambda: operator.lease.leading() and operator.controller is not None)
        await world.until("two looks at each of two servers", lambda: looks(operator) >= looked + 4)
        assert snapshot(world) == before
        world.create("after", {"url": url})
        await world.until("a new server is Ready", lambda: world.is_("after", "Ready", "True"))
        await world.until("it has no entry any more", lambda: world.documents().get(SERVERS_NAME) == NO_ENTRIES)
        now = snapshot(world)
    changed = [name for name in before if before[name] != now[name]]
    assert set(changed) <= {servers}, "the new server had an entry while it was not ready"
    assert now[servers]["uid"] == before[servers]["uid"]


async def test_a_deletion_during_an_api_outage_is_noticed(own_world: World) -> None:
    """Kopf does not report it: the object is only missing from its next list."""
    world = own_world
    plane = own_world.plane
    async with sdk_server() as url, running(world, lease_seconds=300.0, list_seconds=2.0):
        await converge(world, url)
        plane.kill_apiserver()
        await asyncio.to_thread(plane.start_apiserver)
        world.request("DELETE", world.server_path("remote"))
        await world.until("no catalog", lambda: world.catalog("remote") is None)


async def test_the_second_operator_takes_over_at_once_when_the_leader_stops(world: World) -> None:
    async with sdk_server() as url, AsyncExitStack() as later:
        async with running(world, identity="first", lease_seconds=30.0) as first:
            await world.until("leading", lambda: first.controller is not None)
            second = await later.enter_async_context(running(world, identity="second", lease_seconds=30.0))
            await world.until("waiting", lambda: second.lease.waiting)
            world.create("demo", {"url": url})
            await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
            assert not second.lease.leading()
            assert second.controller is None
        await world.until(
            "the second leads", lambda: second.controller is not None, seconds=20
        )  # long before the end of the Lease
        world.create("next", {"url": url})
        await world.until("Ready", lambda: world.is_("next", "Ready", "True"))


@pytest.mark.timeout(150)
async def test_deletion_of_a_namespace_does_not_hang_without_the_operator(
    private_plane: PlaneFactory,
) -> None:
    plane: ControlPlane = private_plane(controllers=True)
    world = World(plane, plane.create_namespace("tenant"), plane.create_namespace("release"))
    async with sdk_server() as url, running(world):
        world.create("remote", {"url": url})
        world.create("pods", {"image": {"name": "registry.example/demo:1"}})
        await world.until("Ready", lambda: world.is_("remote", "Ready", "True"))
        await world.until("a Deployment", lambda: world.get(world.path("deployments", "pods")))
        assert "finalizers" not in world.server("pods")["metadata"]
    status, _ = world.request("DELETE", world.server_path("pods"))
    assert status == 200
    assert world.get(world.server_path("pods")) is None, "gone at once: nothing holds it"

    def is_gone(path: str) -> bool:
        return world.get(path) is None

    for plural in WATCHED:
        await world.until(f"{plural} collected", partial(is_gone, world.path(plural, "pods")))
    plane.request("DELETE", f"/api/v1/namespaces/{world.namespace}")
    path = f"/api/v1/namespaces/{world.namespace}"
    await world.until("the namespace gone", lambda: plane.request("GET", path)[0] == 404, seconds=30)
