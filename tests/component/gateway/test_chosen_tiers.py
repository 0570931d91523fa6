"""Latency hides a tool only from clients that chose a tier. A list says which tools its tier hides, why, and which tier
has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from commands import fairlead
from fairlead_api.documents.catalog import Catalog, Definition
from fairlead_api.documents.rules import Policy, PolicyLimits, Rule, Rules, Tier
from fairlead_api.documents.state import ServerState, State, ToolState
from fairlead_app.authentication import Trust
from fairlead_app.gateway import Gateway
from fairlead_operator.publish.compile import compile_rules
from gatewayworld import (
    LEGACY,
    MODERN,
    Clock,
    Wire,
    ask,
    calling,
    catalog,
    legacy,
    modern,
    publish,
    running,
    wait_for_snapshots,
)
from policyworld import Vouching, anybody, by
from rawserver import Reply, Request, raw_server
from restworld import MESSAGES, get, post, problem

NOWHERE = "http://127.0.0.1:9/mcp"
SEEDED = compile_rules([], [], {})
"""The rules of an installation in which nobody has declared or named a tier."""
SLOW = "over_budget p95=812ms tier=500ms"
SLOWER = "over_budget p95=9000ms tier=4000ms"
ALL = ("fast", "standard", "deep")
NPC = anybody("npc")
ANYTHING = (Rule(action="Allow", tools=("*",)),)


def shop(url: str = NOWHERE, *more: str) -> Catalog:
    return catalog("shop", url, ["quick", "slow", "slowest", *more])


def published_state(**hidden: dict[str, str]) -> State:
    """State that the operator publishes about the tools of `shop`. `hidden`: by tool, the tiers that hide it with the
    reason."""
    tools = [
        ToolState(name=name, environment="cluster", tiers=tuple(t for t in ALL if t not in why), hidden=why)
        for name, why in hidden.items()
    ]
    return State(servers=(ServerState(namespace="default", name="shop", tools=tuple(tools)),), decided_at="2026-01-01")


MEASURED = published_state(slow={"fast": SLOW}, slowest=dict.fromkeys(ALL, SLOWER))
EVERY = ["shop__quick", "shop__slow", "shop__slowest"]
QUICK = ["shop__quick"]
IN_STANDARD = {
    "name": "shop__slow",
    "tier": "fast",
    "reason": SLOW,
    "shownIn": "standard",
    "endpoint": "/mcp/standard",
}
IN_NO_TIER = {"name": "shop__slowest", "tier": "fast", "reason": SLOWER, "endpoint": "/mcp"}


def prompt_catalog(*prompts: str) -> Catalog:
    """The shop with prompts, whose changes are announced separately from those of tools."""
    definitions = tuple(Definition(name=n, definition=Raw(b'{"name":"%b"}' % n.encode()), hash="") for n in prompts)
    capabilities = Raw(b'{"tools":{},"prompts":{}}')
    return catalog("shop", NOWHERE, ["quick", "slow"], prompts=definitions, capabilities=capabilities)


async def handle(request: Request, reply: Reply) -> None:
    reply.result(request, {"resultType": "complete", "content": []})


async def result(gateway: Gateway, target: str = "/mcp", era: str = MODERN) -> dict[str, Any]:
    """The answer to `tools/list`."""
    request = modern("tools/list") if era == MODERN else legacy("tools/list")
    return dict((await ask(gateway, request.to(target))).message["result"])


def names(answer: dict[str, Any]) -> list[str]:
    return [tool["name"] for tool in answer["tools"]]


def rules_with_default(rules: Rules, name: str) -> Rules:
    """The rules of an installation that names a default tier."""
    return compile_rules([], [], {}, rules.default_action, name)


async def test_clients_without_a_tier_see_every_tool_that_policies_allow(tmp_path: Path) -> None:
    clock = Clock()
    async with raw_server(handle) as server, running(tmp_path, shop(server.url), SEEDED, MEASURED, clock=clock) as made:
        clock.forward(120.0)
        assert names(await result(made)) == EVERY
        assert names(await result(made, "/servers/default/shop/mcp")) == ["quick", "slow", "slowest"]
        assert [tool["name"] for tool in (await get(made, "/v1/tools")).message["tools"]] == EVERY
        called = (await ask(made, calling("shop__slowest"))).message["result"]
        message = MESSAGES["openai-chat"]([("c1", "shop__slowest", {})])
        of_model = (await post(made, "/v1/tool-calls", {"format": "openai", "message": message})).message["calls"]
    assert "isError" not in called
    assert [call["state"] for call in of_model] == ["done"]


async def test_a_tier_filters_where_it_is_chosen_by_path_by_header_or_by_parameter(tmp_path: Path) -> None:
    async with running(tmp_path, shop(), SEEDED, MEASURED) as gateway:
        header = await ask(gateway, modern("tools/list").with_headers(fairlead_tier="fast"))
        assert names(header.message["result"]) == QUICK
        assert names(await result(gateway, "/mcp/fast")) == QUICK
        assert names(await result(gateway, "/mcp/deep")) == ["shop__quick", "shop__slow"]
        assert names(await result(gateway, "/servers/default/shop/mcp/fast")) == ["quick"]
        listing = (await get(gateway, "/v1/tools?tier=fast")).message
    assert [tool["name"] for tool in listing["tools"]] == QUICK


@pytest.mark.parametrize("bound", [{"default_tier": "fast"}, {"max_tier": "fast"}])
async def test_the_tiers_of_a_policy_filter_for_its_subjects(tmp_path: Path, bound: dict[str, str]) -> None:
    policy = Policy(namespace="default", name="quick", every=True, rules=ANYTHING, **bound)  # type: ignore[arg-type]  # one member of several types
    rules = Rules(tiers=SEEDED.tiers, policies=(policy,))
    async with running(tmp_path, shop(), rules, MEASURED, trust=Trust((Vouching(NPC),))) as gateway:
        answer = (await ask(gateway, by("npc", modern("tools/list")))).message["result"]
    assert names(answer) == QUICK
    hidden = answer["_meta"]["fairlead.dev/hidden"]
    assert [tool.get("endpoint") for tool in hidden["tools"]] == [
        "/mcp/standard" if "default_tier" in bound else None,
        None,
    ]


async def test_an_installation_may_name_a_default_tier_for_who_names_none(tmp_path: Path) -> None:
    async with running(tmp_path, shop(), rules_with_default(SEEDED, "fast"), MEASURED) as gateway:
        answer = await result(gateway)
        tiers = (await get(gateway, "/v1/tiers")).message["tiers"]
    assert names(answer) == QUICK
    assert [tier["name"] for tier in tiers if tier["default"]] == ["fast"]
    without = {key: value for key, value in IN_NO_TIER.items() if key != "endpoint"}
    assert answer["_meta"]["fairlead.dev/hidden"]["tools"] == [IN_STANDARD, without], "/mcp does not show it either"


async def test_the_last_rule_of_a_choice_is_the_fastest_tier_where_none_is_the_default(tmp_path: Path) -> None:
    async with running(tmp_path, shop(), SEEDED, MEASURED) as gateway:
        choice = (await post(gateway, "/v1/tier", {"text": "hello", "number": 4})).message
    assert (choice["tier"], choice["rule"]) == ("fast", "default")


@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_a_list_says_how_many_tools_its_tier_hides_why_and_where_they_are(tmp_path: Path, era: str) -> None:
    async with running(tmp_path, shop(), SEEDED, MEASURED) as gateway:
        fast = await result(gateway, "/mcp/fast", era)
        own = await result(gateway, "/servers/default/shop/mcp/fast", era)
        whole = await result(gateway, "/mcp", era)
        again = await result(gateway, "/mcp/fast", era)
    assert fast["_meta"]["fairlead.dev/hidden"] == {"count": 2, "tools": [IN_STANDARD, IN_NO_TIER]}
    assert [tool["endpoint"] for tool in own["_meta"]["fairlead.dev/hidden"]["tools"]] == [
        "/servers/default/shop/mcp/standard",
        "/servers/default/shop/mcp",
    ]
    assert "fairlead.dev/hidden" not in whole.get("_meta", {})
    assert json.dumps(again) == json.dumps(fast)
    if era == MODERN:
        assert fast["_meta"].keys() == {"fairlead.dev/hidden", *whole["_meta"]}


async def test_a_list_names_fifty_hidden_tools_and_counts_the_rest(tmp_path: Path) -> None:
    many = [f"t{number:03}" for number in range(120)]
    state = published_state(**{name: {"fast": f"{SLOW} {'x' * 5000}"} for name in many})
    async with running(tmp_path, shop(NOWHERE, *many), SEEDED, state) as gateway:
        answer = await ask(gateway, modern("tools/list").to("/mcp/fast"))
    hidden = answer.message["result"]["_meta"]["fairlead.dev/hidden"]
    assert hidden["count"] == 120
    assert [tool["name"] for tool in hidden["tools"]] == [f"shop__{name}" for name in many[:50]]
    assert len(json.dumps(hidden)) < 25_000


async def test_tools_that_policies_deny_or_cut_are_in_no_count_and_stay_unknown(tmp_path: Path) -> None:
    denying = Policy(
        namespace="default",
        name="no-slow",
        every=True,
        rules=(*ANYTHING, Rule(action="Deny", tools=("slow",))),
        limits=PolicyLimits(max_tools=1),
    )
    rules = Rules(tiers=SEEDED.tiers, policies=(denying,))
    state = published_state(slow={"fast": SLOW}, slowest={"fast": SLOWER})
    async with running(tmp_path, shop(NOWHERE, "rest"), rules, state, trust=Trust((Vouching(NPC),))) as gateway:
        npc = {"authorization": "Bearer npc"}
        answer = (await ask(gateway, by("npc", modern("tools/list").to("/mcp/fast")))).message["result"]
        rest = (await get(gateway, "/v1/tools?tier=fast", **npc)).message
        unknown = await get(gateway, "/v1/tools/shop__slow?tier=fast", **npc)
        cut = await get(gateway, "/v1/tools/shop__rest?tier=fast", **npc)
        url = f"http://127.0.0.1:{gateway.port}/mcp"
        called = await fairlead("call", "shop__slow", "a=1", "--tier", "fast", "--url", url, "--token", "npc")
    assert names(answer) == QUICK
    hidden = answer["_meta"]["fairlead.dev/hidden"]
    assert (hidden["count"], [tool["name"] for tool in hidden["tools"]]) == (1, ["shop__slowest"])
    assert rest["hidden"] == hidden
    assert (problem(unknown), problem(cut)) == ((404, "UNKNOWN_TOOL"),) * 2
    assert "Unknown tool: shop__slow." in called[2]


@pytest.mark.parametrize("query", ["tier=fast", "tier=fast&format=openai", "tier=fast&format=openai&maxTools=5"])
async def test_rest_says_with_a_list_what_the_tier_hides(tmp_path: Path, query: str) -> None:
    async with running(tmp_path, shop(), SEEDED, MEASURED) as gateway:
        answer = (await get(gateway, f"/v1/tools?{query}")).message
        other = (await get(gateway, f"/v1/tools?{query}&tags=none")).message
        whole = (await get(gateway, f"/v1/tools?{query.replace('tier=fast', '')}")).message
        plan = (await post(gateway, "/v1/plan", {"models": ["gpt-5"], "tier": "fast", "messages": []})).message
    assert answer["hidden"] == {"count": 2, "tools": [IN_STANDARD, IN_NO_TIER]}
    assert "hidden" not in other, "a tool that was not asked for is not missing"
    assert "hidden" not in whole
    assert plan["offer"]["hidden"] == answer["hidden"]


async def test_rest_answers_a_tool_that_a_tier_hides_with_the_place_where_it_is(tmp_path: Path) -> None:
    clock = Clock()
    async with raw_server(handle) as server, running(tmp_path, shop(server.url), SEEDED, MEASURED, clock=clock) as made:
        clock.forward(120.0)
        shown = await get(made, "/v1/tools/shop__slow?tier=fast")
        nowhere = await get(made, "/v1/tools/mcp.shop.slowest?tier=fast")
        here = await get(made, "/v1/tools/shop__slow?tier=standard")
        message = MESSAGES["openai-chat"]([("c1", "shop__slow", {})])
        body = {"format": "openai", "tier": "fast", "message": message}
        (call,) = (await post(made, "/v1/tool-calls", body)).message["calls"]
        servers = (await get(made, "/v1/tools?tier=fast&servers=default/shop&tags=x")).status
    assert problem(shown) == problem(nowhere) == (422, "OVER_BUDGET")
    assert (shown.message["hidden"], nowhere.message["hidden"]) == (IN_STANDARD, IN_NO_TIER)
    assert (
        shown.message["detail"]
        == f"tier fast hides the tool shop__slow: {SLOW}; tier standard shows the tool, at /mcp/standard"
    )
    assert nowhere.message["detail"].endswith(
        "; no tier shows the tool now, but the endpoint without a tier shows it, at /mcp"
    )
    assert here.status == servers == 200
    assert (call["state"], call["code"], call["message"]) == ("refused", "OVER_BUDGET", shown.message["detail"])


async def test_the_commands_say_what_a_tier_hides_and_where_it_is(tmp_path: Path) -> None:
    async with running(tmp_path, shop(), SEEDED, MEASURED) as gateway:
        url = ("--url", f"http://127.0.0.1:{gateway.port}/mcp")
        table = await fairlead("tools", "--tier", "fast", *url)
        as_json = await fairlead("tools", "--tier", "fast", "--output", "json", *url)
        offer = await fairlead("tools", "--tier", "fast", "--format", "openai", *url)
        whole = await fairlead("tools", *url)
        called = await fairlead("call", "shop__slow", "a=1", "--tier", "fast", *url)
        unknown = await fairlead("call", "shop__slowly", "a=1", "--tier", "fast", *url)
    summary = "2 hidden in tier fast: shop__slow (over_budget, in standard), shop__slowest (over_budget, at /mcp)"
    assert table[1].endswith(f"\n{summary}\n")
    assert json.loads(as_json[1])[0]["name"] == "shop__quick"
    assert as_json[2] == offer[2] == f"fairlead tools: {summary}\n"
    assert "hidden" not in whole[1]
    assert "shop__slowest" in whole[1]
    assert called[0] == 1
    assert (
        f"OVER_BUDGET: tier fast hides the tool shop__slow: {SLOW}; tier standard shows the tool, at /mcp/standard"
        in called[2]
    )
    assert "OVER_BUDGET" not in unknown[2]


async def test_a_client_without_a_tier_hears_nothing_of_moves_between_tiers(tmp_path: Path) -> None:
    document = prompt_catalog()
    wanted = {"notifications": {"toolsListChanged": True, "promptsListChanged": True}}
    async with (
        running(tmp_path, document, SEEDED) as gateway,
        await Wire.connect(gateway) as anywhere,
        await Wire.connect(gateway) as fast,
    ):
        for wire, target in ((anywhere, "/mcp"), (fast, "/mcp/fast")):
            wire.send(modern("subscriptions/listen", wanted, number="s").to(target))
            await wire.reader.readuntil(b"}}\n\n")
        publish(tmp_path / "documents", published_state(slow={"fast": SLOW}))
        await fast.reader.readuntil(b"notifications/tools/list_changed")
        swaps = gateway.snapshots.swaps
        publish(tmp_path / "documents", prompt_catalog("p"))
        await wait_for_snapshots(gateway, swaps + 1)
        first = await anywhere.reader.readuntil(b"list_changed")
    assert first.endswith(b"notifications/prompts/list_changed")


async def test_figures_that_move_no_tool_change_no_definition_and_announce_nothing(tmp_path: Path) -> None:
    document = prompt_catalog()
    wanted = {"notifications": {"toolsListChanged": True, "promptsListChanged": True}}
    async with (
        running(tmp_path, document, SEEDED, published_state(slow={"fast": SLOW})) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        before = await result(gateway, "/mcp/fast")
        wire.send(modern("subscriptions/listen", wanted, number="s").to("/mcp/fast"))
        await wire.reader.readuntil(b"}}\n\n")
        swaps = gateway.snapshots.swaps
        publish(tmp_path / "documents", published_state(slow={"fast": "over_budget p95=990ms tier=500ms"}))
        await wait_for_snapshots(gateway, swaps + 1)
        after = await result(gateway, "/mcp/fast")
        publish(tmp_path / "documents", prompt_catalog("p"))
        first = await wire.reader.readuntil(b"list_changed")
    assert before["tools"] == after["tools"]
    assert after["_meta"]["fairlead.dev/hidden"]["tools"][0]["reason"] == "over_budget p95=990ms tier=500ms"
    assert first.endswith(b"notifications/prompts/list_changed")


async def test_a_tier_without_hidden_tools_lists_as_ever(tmp_path: Path) -> None:
    rules = Rules(tiers=(Tier(name="any"),))
    async with running(tmp_path, shop(), rules, MEASURED) as gateway:
        answer = await result(gateway, "/mcp/any", LEGACY)
    assert (names(answer), [*answer]) == (EVERY, ["tools"])
