"""Changes that are made during an outage of the API server take effect soon after it.

The operator reaches a real API server through a proxy that is stopped, and the tests change objects directly. Kopf
reports no deletions of that time, so complete lists have to find them.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from apiproxy import ApiProxy
from controlplane import PlaneFactory
from fairlead_api.documents.codec import RULES_NAME, decode
from fairlead_api.documents.rules import Rules
from operatorworld import GROUP, QUICK, Json, World, release_namespace, running
from rawserver import Reply, Request, raw_server
from toolservers import answer_modern, tool

LIST_SECONDS = 2.0
ALLOW, DENY = ({"rules": [{"action": action, "tools": ["*"]}]} for action in ("Allow", "Deny"))


def put(world: World, plural: str, name: str, spec: Json) -> None:
    """Create an object of one of the operator's kinds."""
    kind = {"latencytiers": "LatencyTier", "toolpolicies": "ToolPolicy"}[plural]
    body: Json = {"apiVersion": "fairlead.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    status, answer = world.request("POST", collection(world, plural), body)
    assert status == 201, answer


def collection(world: World, plural: str) -> str:
    return f"{GROUP}/{plural}" if plural == "latencytiers" else f"{GROUP}/namespaces/{world.namespace}/{plural}"


def change(world: World, plural: str, name: str, spec: Json) -> None:
    path = f"{collection(world, plural)}/{name}"
    status, answer = world.request("PATCH", path, {"spec": spec}, content_type="application/merge-patch+json")
    assert status == 200, answer


def delete(world: World, plural: str, name: str) -> None:
    status, answer = world.request("DELETE", f"{collection(world, plural)}/{name}")
    assert status == 200, answer


def in_force(world: World) -> dict[str, Any]:
    """Published policies with the action of their first rule, tiers with their limit in milliseconds, servers with a
    catalog."""
    data = world.documents().get(RULES_NAME)
    rules = decode(data) if data is not None else Rules()
    assert isinstance(rules, Rules)
    return {
        "policies": {policy.name: policy.rules[0].action for policy in rules.policies},
        "tiers": {tier.name: tier.max_latency_ms for tier in rules.tiers},
        "servers": {name for name in ("kept", "changed", "gone", "new") if world.catalog(name) is not None},
    }


@pytest.mark.timeout(180)
@pytest.mark.parametrize("outage_seconds", [1.0, pytest.param(30.0, marks=pytest.mark.nightly)])
async def test_policies_tiers_and_servers_are_as_declared_within_one_list_period_of_the_api_servers_return(
    private_plane: PlaneFactory, tmp_path: Path, outage_seconds: float
) -> None:
    plane = await asyncio.to_thread(private_plane)
    tenant = plane.create_namespace("tenant")

    async def handle(request: Request, reply: Reply) -> None:
        answer_modern(request, reply, [tool("add")])

    with release_namespace(plane, tenant) as release:
        world = World(plane, tenant, release)
        # The Lease outlasts the outage, so the caches of the same leader, not of a successor, have to become correct.
        settings = {"list_seconds": LIST_SECONDS, "sweep_seconds": 3600.0, "lease_seconds": 300.0}
        async with raw_server(handle) as server, ApiProxy(plane, tmp_path) as proxy:
            for name in ("kept", "changed", "gone"):
                world.create(name, {"url": server.url})
                put(world, "toolpolicies", name, ALLOW)
                put(world, "latencytiers", name, {"maxLatency": "1s"})
            async with running(world, QUICK, kubeconfig=str(proxy.kubeconfig), **settings):
                named = ("kept", "changed", "gone")
                before = {
                    "policies": dict.fromkeys(named, "Allow"),
                    "tiers": dict.fromkeys(named, 1000),
                    "servers": set(named),
                }
                await world.until("everything in force", lambda: in_force(world) == before)
                await proxy.vanish()
                for plural, other in (("toolpolicies", DENY), ("latencytiers", {"maxLatency": "2s"})):
                    delete(world, plural, "gone")
                    change(world, plural, "changed", other)
                    put(world, plural, "new", other)
                delete(world, "mcpservers", "gone")
                change(world, "mcpservers", "changed", {"prefix": "other"})
                world.create("new", {"url": server.url})
                # Its new process has no history of deletions, so watches cannot resume and have to begin with a list.
                await asyncio.to_thread(plane.kill_apiserver)
                # the duration of the outage, during which there is no event to wait for
                await asyncio.sleep(outage_seconds)
                await asyncio.to_thread(plane.start_apiserver)
                await proxy.appear()
                after = {
                    "policies": {"kept": "Allow", "changed": "Deny", "new": "Deny"},
                    "tiers": {"kept": 1000, "changed": 2000, "new": 2000},
                    "servers": {"kept", "changed", "new"},
                }
                await world.until("as declared", lambda: in_force(world) == after, seconds=60)
                catalog = world.catalog("changed")
                assert catalog is not None
                assert catalog.prefix == "other"


@pytest.mark.timeout(180)
async def test_a_policy_deleted_as_the_api_server_returns_from_a_crash_is_out_of_force(
    private_plane: PlaneFactory,
) -> None:
    plane = await asyncio.to_thread(private_plane)
    tenant = plane.create_namespace("tenant")
    with release_namespace(plane, tenant) as release:
        world = World(plane, tenant, release)
        put(world, "toolpolicies", "kept", ALLOW)
        put(world, "toolpolicies", "gone", ALLOW)
        async with running(world, QUICK, list_seconds=LIST_SECONDS, sweep_seconds=3600.0, lease_seconds=300.0):
            await world.until("both in force", lambda: set(in_force(world)["policies"]) == {"kept", "gone"})
            await asyncio.to_thread(plane.kill_apiserver)
            await asyncio.to_thread(plane.start_apiserver)
            await asyncio.to_thread(delete, world, "toolpolicies", "gone")
            await world.until("one in force", lambda: set(in_force(world)["policies"]) == {"kept"}, seconds=60)
