"""Policies on a real API server: what they say of themselves, and that no tenant reaches into another's namespace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from controlplane import ControlPlane
from fairlead_api.documents.codec import RULES_NAME, encode
from fairlead_api.documents.rules import Policy, Rule, Rules
from fairlead_api.documents.store import pack
from fairlead_operator.kube.documents import config_map_for
from operatorworld import GROUP, Json, World, release_namespace, running
from togetherworld import names, serving
from toolservers import modern_server, tool
from waiting import until_async


@pytest.fixture
def world(control_plane: ControlPlane, namespace: str) -> Iterator[World]:
    with release_namespace(control_plane, namespace) as release:
        yield World(control_plane, namespace, release)


def declare(world: World, name: str, rules: list[Json], *, namespace: str = "", **spec: Any) -> None:
    """Create a ToolPolicy, or give it another spec."""
    path = f"{GROUP}/namespaces/{namespace or world.namespace}/toolpolicies"
    body: Json = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "ToolPolicy", "metadata": {"name": name}}
    body["spec"] = {"rules": rules, **spec}
    code, answer = world.request("POST", path, body)
    if code == 409:
        merge = "application/merge-patch+json"
        code, answer = world.request("PATCH", f"{path}/{name}", {"spec": body["spec"]}, content_type=merge)
    assert code in (200, 201), answer


def status(world: World, name: str) -> Json:
    found = world.get(f"{GROUP}/namespaces/{world.namespace}/toolpolicies/{name}")
    assert found is not None
    return dict(found.get("status") or {})


def accepted(world: World, name: str) -> tuple[str, str]:
    """Status and reason; empty while nothing is said of this generation."""
    found = world.get(f"{GROUP}/namespaces/{world.namespace}/toolpolicies/{name}")
    assert found is not None
    conditions = (found.get("status") or {}).get("conditions") or [{"observedGeneration": -1}]
    if conditions[0]["observedGeneration"] != found["metadata"]["generation"]:
        return "", ""
    return conditions[0]["status"], conditions[0]["reason"]


ALL, NO_ADD = {"action": "Allow", "tools": ["*"]}, {"action": "Deny", "tools": ["add"]}


async def test_a_policy_says_what_it_selects_matches_and_contradicts(world: World) -> None:
    async with modern_server([tool("add"), tool("sub")]) as server, running(world):
        declare(world, "early", [ALL])
        await world.until("nothing yet", lambda: accepted(world, "early") == ("Unknown", "NothingSelected"))
        world.create("demo", {"url": server.url})
        await world.until("in force", lambda: accepted(world, "early") == ("True", "Accepted"))
        await world.until("two tools", lambda: status(world, "early").get("tools") == 2)
        assert status(world, "early")["servers"] == 1
        declare(world, "early", [ALL, {"action": "Allow", "tools": ["demo__add"]}])
        await world.until("no match", lambda: accepted(world, "early") == ("Unknown", "RulesMatchNothing"))
        assert status(world, "early")["unmatchedRules"] == [1]
        declare(world, "early", [ALL])
        declare(world, "late", [NO_ADD], limits={"maxTools": 3}, tiers={"max": "standard"})
        await world.until("conflict", lambda: accepted(world, "early") == ("Unknown", "Conflicted"))
        assert status(world, "early")["conflicts"] == [
            {"policy": "late", "message": "it denies demo/add, which this one allows: denied"}
        ]
        await world.until("and the other", lambda: accepted(world, "late") == ("Unknown", "Conflicted"))
        declare(world, "late", [NO_ADD], tiers={"max": "none"})
        await world.until("no such tier", lambda: accepted(world, "late") == ("False", "UnknownTier"))
        declare(world, "late", [{**ALL, "arguments": {"properties": {"p": {"pattern": "(?=x)"}}}}])
        await world.until("no schema", lambda: accepted(world, "late") == ("False", "Invalid"))
        _, events = world.request("GET", f"/apis/events.k8s.io/v1/namespaces/{world.namespace}/events")
        told = {(e["regarding"]["kind"], e["regarding"]["name"], e["reason"]) for e in events["items"]}
        assert ("ToolPolicy", "early", "Conflicted") in told
        assert ("ToolPolicy", "late", "UnknownTier") in told
        shown = world.plane.kubectl("-n", world.namespace, "get", "tp").stdout.splitlines()
        assert shown[0].split() == ["NAME", "SERVERS", "TOOLS", "ACCEPTED", "REASON", "AGE"]
        assert shown[1].split()[:5] == ["early", "1", "2", "True", "Accepted"]


@pytest.fixture
def neighbor(world: World) -> Iterator[str]:
    """Another tenant's namespace."""
    name = world.plane.create_namespace(f"{world.namespace}-b")
    yield name
    world.plane.remove_namespace(name)


async def test_a_policy_takes_effect_in_its_own_namespace_alone(world: World, neighbor: str) -> None:
    async with (
        modern_server([tool("add"), tool("sub")]) as server,
        running(world, prefix_style="name"),
        serving(world) as gateway,
    ):
        world.create("mine", {"url": server.url})
        body = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": "theirs"}}
        path = f"{GROUP}/namespaces/{neighbor}/mcpservers"
        assert world.request("POST", path, {**body, "spec": {"url": server.url}})[0] == 201

        async def lists(*expected: str) -> None:
            async def same() -> bool:
                return await names(gateway) == [*expected]

            await until_async(f"{expected}", same)

        await lists("mine__add", "mine__sub", "theirs__add", "theirs__sub")
        declare(world, "shut", [{"action": "Deny", "tools": ["*"]}], namespace=neighbor)
        await lists("mine__add", "mine__sub")
        declare(world, "some", [NO_ADD, ALL])
        await lists("mine__sub")
        assert world.request("DELETE", f"{GROUP}/namespaces/{neighbor}/toolpolicies/shut")[0] == 200
        await lists("mine__sub", "theirs__add", "theirs__sub")


async def test_a_forged_document_in_a_tenants_namespace_has_no_effect(world: World, neighbor: str) -> None:
    """What opens everything, written where a tenant may write, beside the release's own."""
    open_all = Rules(policies=(Policy(namespace=world.namespace, name="shut", every=True, rules=(
        Rule(action="Allow", tools=("*",)),)),))  # fmt: skip
    async with (
        modern_server([tool("add")]) as server,
        running(world),
        serving(world) as gateway,
    ):
        world.create("demo", {"url": server.url})
        declare(world, "shut", [{"action": "Deny", "tools": ["*"]}])
        await world.until("ready", lambda: world.is_("demo", "Ready", "True"))
        await world.until("in force", lambda: accepted(world, "shut")[0] == "True")
        for namespace in (world.namespace, neighbor):
            for blob in pack(RULES_NAME, "rules", encode(open_all)):
                forged = config_map_for(blob, namespace)
                code, answer = world.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", forged)
                assert code == 201, answer
        swaps = gateway.snapshots.swaps
        declare(world, "shut", [{"action": "Deny", "tools": ["*"]}, {"action": "Deny", "tools": ["a*"]}])

        async def swapped() -> bool:
            return gateway.snapshots.swaps > swaps

        await until_async("the gateway has looked since", swapped)
        assert await names(gateway) == []
        assert msgspec.json.decode(world.documents()[RULES_NAME])["policies"][0]["rules"][0]["action"] == "Deny"
