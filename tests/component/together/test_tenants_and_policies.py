"""Policies on a real API server: their statuses, and that no tenant's policy affects another namespace."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from fairlead_api.documents.codec import RULES_NAME, encode
from fairlead_api.documents.rules import Policy, Rule, Rules
from fairlead_api.documents.store import pack
from fairlead_operator.kube.documents import config_map_for
from operatorworld import GROUP, Json, World, running
from shownconditions import causes
from togetherworld import declare, names, serving
from toolservers import modern_server, tool
from waiting import eventually, until_async


def status(world: World, name: str) -> Json:
    policy = world.get(f"{GROUP}/namespaces/{world.namespace}/toolpolicies/{name}")
    assert policy is not None
    return dict(policy.get("status") or {})


def shown_conditions(world: World, name: str) -> dict[str, tuple[str, str]]:
    """Status and cause of each condition except Ready; empty while the status is about an older generation."""
    policy = world.get(f"{GROUP}/namespaces/{world.namespace}/toolpolicies/{name}")
    assert policy is not None
    status = policy.get("status") or {}
    if status.get("observedGeneration") != policy["metadata"]["generation"]:
        return {}
    told = causes(status["conditions"])
    assert told.pop("Ready")[0] == told["Accepted"][0]
    return told


IN_FORCE = ("True", "Accepted")


def in_force(**beside: str) -> dict[str, tuple[str, str]]:
    """Expected conditions of a policy in force, with the causes of the conditions other than Accepted."""
    return {"Accepted": IN_FORCE, **{kind: ("True", cause) for kind, cause in beside.items()}}


ALL = {"action": "Allow", "tools": ["*"]}
NO_ADD = {"action": "Deny", "tools": ["add"]}


def is_told(world: World, policy: str, reason: str) -> bool:
    """Whether there is an Event with this reason about a ToolPolicy."""
    _, events = world.request("GET", f"/apis/events.k8s.io/v1/namespaces/{world.namespace}/events")
    return any(
        (e["regarding"]["kind"], e["regarding"]["name"], e["reason"]) == ("ToolPolicy", policy, reason)
        for e in events["items"]
    )


async def test_a_policy_says_what_it_selects_matches_and_contradicts(world: World) -> None:
    async with modern_server([tool("add"), tool("sub")]) as server, running(world):
        declare(world, "early", [ALL])
        await world.until(
            "nothing yet", lambda: shown_conditions(world, "early") == in_force(PartiallyInvalid="NothingSelected")
        )
        world.create("demo", {"url": server.url})
        await world.until("in force", lambda: shown_conditions(world, "early") == in_force())
        await world.until("two tools", lambda: status(world, "early").get("tools") == 2)
        assert status(world, "early")["servers"] == 1
        declare(world, "early", [ALL, {"name": "strays", "action": "Allow", "tools": ["demo__add"]}])
        await world.until(
            "no match", lambda: shown_conditions(world, "early") == in_force(PartiallyInvalid="RulesMatchNothing")
        )
        assert status(world, "early")["unmatchedRules"] == ["strays"]
        declare(world, "early", [ALL])
        declare(world, "late", [NO_ADD], limits={"maxTools": 3}, tiers={"max": "standard"})
        await world.until("conflict", lambda: shown_conditions(world, "early") == in_force(Conflicted="Conflicted"))
        assert status(world, "early")["conflicts"] == [
            {"policy": "late", "message": "that policy denies demo/add, which this policy allows: calls are denied"}
        ]
        await world.until("and the other", lambda: shown_conditions(world, "late") == in_force(Conflicted="Conflicted"))
        declare(world, "late", [NO_ADD], tiers={"max": "none"})
        await world.until(
            "no such tier",
            lambda: (
                shown_conditions(world, "late") == in_force(PartiallyInvalid="UnknownTier", Conflicted="Conflicted")
            ),
        )
        declare(world, "late", [{**ALL, "arguments": {"properties": {"p": {"pattern": "(?=x)"}}}}])
        await world.until(
            "no schema",
            lambda: (
                shown_conditions(world, "late") == in_force(PartiallyInvalid="RuleInvalid", Conflicted="Conflicted")
            ),
        )
        # Events and the other policy's status are written later
        await world.until("a conflict told", lambda: is_told(world, "early", "Conflicted"))
        await world.until("an unknown tier told", lambda: is_told(world, "late", "InvalidRef"))
        await world.until("the first accepted again", lambda: shown_conditions(world, "early") == in_force())
        table = world.plane.kubectl("-n", world.namespace, "get", "tp").stdout.splitlines()
        head = ["NAME", "SERVERS", "TOOLS", "ACCEPTED", "PARTIALLY", "INVALID", "CONFLICTED", "AGE"]
        assert table[0].split() == head
        assert table[1].split()[:4] == ["early", "1", "2", "True"]
        assert len(table[1].split()) == 5, "nothing is invalid or in conflict: these columns are empty"


async def test_a_policy_names_the_servers_that_have_not_listed_their_tools(world: World) -> None:
    async with modern_server([tool("add"), tool("sub")]) as server, running(world):
        world.create("demo", {"url": server.url})
        world.create("dead", {"url": "http://127.0.0.1:9/mcp"})
        declare(world, "early", [ALL, {"name": "strays", "action": "Allow", "tools": ["none"]}])
        await world.until("one that lists nothing", lambda: status(world, "early").get("unlistedServers") == ["dead"])
        await world.until("tools of the other", lambda: status(world, "early").get("tools") == 2)
        assert status(world, "early")["unmatchedRules"] == ["strays"]
        assert shown_conditions(world, "early") == in_force(), (
            "the rule may match a tool of the server that lists nothing"
        )
        world.request("DELETE", world.server_path("dead"))
        await world.until(
            "a warning", lambda: shown_conditions(world, "early") == in_force(PartiallyInvalid="RulesMatchNothing")
        )
        assert status(world, "early").get("unlistedServers", []) == []


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
    """The forged document, with a policy that allows everything, is in a namespace where a tenant may write."""
    open_all = Rules(
        policies=(
            Policy(namespace=world.namespace, name="shut", every=True, rules=(Rule(action="Allow", tools=("*",)),)),
        )
    )
    async with (
        modern_server([tool("add")]) as server,
        running(world),
        serving(world) as gateway,
    ):
        world.create("demo", {"url": server.url})
        declare(world, "shut", [{"action": "Deny", "tools": ["*"]}])
        await world.until("ready", lambda: world.is_("demo", "Ready", "True"))
        await world.until("in force", lambda: "Accepted" in shown_conditions(world, "shut"))
        for namespace in (world.namespace, neighbor):
            for blob in pack(RULES_NAME, "rules", encode(open_all)):
                forged = config_map_for(blob, namespace)
                code, answer = world.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", forged)
                assert code == 201, answer
        declare(world, "shut", [{"action": "Deny", "tools": ["*"]}, {"action": "Deny", "tools": ["a*"]}])

        def has_looked() -> bool:
            """Whether the gateway has the server and the rules that were declared after the forgery."""
            snapshot = gateway.snapshot
            return bool(snapshot.servers) and [len(policy.rules) for policy in snapshot.rules.policies] == [2]

        await eventually(has_looked)
        assert await names(gateway) == []
        assert msgspec.json.decode(world.documents()[RULES_NAME])["policies"][0]["rules"][0]["action"] == "Deny"
