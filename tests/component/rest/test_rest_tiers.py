"""Tiers over REST: their tools, and the choice of a tier for a conversation."""

from __future__ import annotations

import json
from pathlib import Path

from msgspec.structs import replace

from commands import wide_fairlead as fairlead
from fairlead_api.documents.catalog import DeclaredLatency
from fairlead_api.documents.rules import Policy, PolicyLimits, Rule, Rules, Subject, Tier
from fairlead_api.documents.state import Quantiles, ServerState, State, ToolState
from fairlead_app.gateway import Gateway
from fairlead_operator.publish.compile import compile_rules
from gatewayworld import catalog, running
from restworld import get, post, problem

NOWHERE = "http://127.0.0.1:9/mcp"
RULES = compile_rules([], [], {})
WHY = "over_budget p95=812ms tier=500ms late=5/5 by=recent back=5-in-time"


def state_with(**medians: float) -> State:
    tools = [
        ToolState(
            name=name,
            quantiles=Quantiles(p50_ms=ms, p90_ms=ms, p95_ms=ms, p99_ms=ms, samples=50),
            tiers=("standard", "deep") if ms > 500 else ("fast", "standard", "deep"),
            hidden={"fast": WHY} if ms > 500 else {},
        )
        for name, ms in medians.items()
    ]
    servers = (ServerState(namespace="default", name="shop", tools=tuple(tools)),)
    return State(servers=servers, decided_at="2026-01-31T09:00:00Z")


async def say(gateway: Gateway, text: str, **more: object) -> dict[str, object]:
    answer = await post(gateway, "/v1/tier", {"text": text, **more})
    assert answer.status == 200, answer.body
    return dict(answer.message)


async def test_tiers_say_what_they_show_and_why_they_hide_the_rest(tmp_path: Path) -> None:
    shop = catalog("shop", NOWHERE, ["quick", "slow"])
    async with running(tmp_path, shop, RULES, state_with(quick=40, slow=812)) as gateway:
        answer = (await get(gateway, "/v1/tiers")).message
    assert answer["decidedAt"] == "2026-01-31T09:00:00Z"
    fast, standard, deep = answer["tiers"]
    assert (fast["name"], fast["default"], fast["tools"], fast["endpoint"]) == ("fast", False, 1, "/mcp/fast")
    assert fast["hidden"] == {"shop__slow": WHY}
    assert (standard["tools"], deep["tools"], deep["hidden"]) == (2, 2, {})


async def test_rest_shows_a_tier_the_same_tools_as_its_endpoint(tmp_path: Path) -> None:
    shop = catalog("shop", NOWHERE, ["quick", "slow"])
    async with running(tmp_path, shop, RULES, state_with(quick=40, slow=812)) as gateway:
        fast = (await get(gateway, "/v1/tools?format=openai&tier=fast")).message["tools"]
        standard = (await get(gateway, "/v1/tools?format=openai&tier=standard")).message["tools"]
    assert [tool["function"]["name"] for tool in fast] == ["shop__quick"]
    assert [tool["function"]["name"] for tool in standard] == ["shop__quick", "shop__slow"]


async def test_a_choice_names_its_rule_and_what_it_means_for_who_waits(tmp_path: Path) -> None:
    shop = catalog("shop", NOWHERE, ["quick", "slow"])
    async with running(tmp_path, shop, RULES, state_with(quick=40, slow=1812)) as gateway:
        quick = await say(gateway, "hello", number=4)
        slow = await say(gateway, "do you remember him?", number=4)
    quick.pop("state")
    slow.pop("state")
    assert quick == {
        "tier": "fast",
        "number": 4,
        "rule": "default",
        "matched": None,
        "limitMs": 500,
        "expectedMs": 40,
        "filler": False,
        "route": "direct",
    }
    assert slow == {
        "tier": "standard",
        "number": 4,
        "rule": "keywords",
        "matched": "do you remember",
        "limitMs": 1500,
        "expectedMs": 1812,
        "filler": True,
        "route": "cascaded",
    }


async def test_the_state_carries_a_command_to_the_next_turns_of_any_replica_with_the_key(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with (
        running(tmp_path, RULES, session_key="k") as gateway,
        running(tmp_path / "other", RULES, session_key="k") as replica,
    ):
        first = await say(gateway, "take your time", number=1)
        second = await say(replica, "and the other one?", number=2, state=first["state"])
        last = await say(replica, "and the other one?", number=4, state=second["state"])
    assert [choice["rule"] for choice in (first, second, last)] == ["command", "command", "conversation"]


async def test_the_state_counts_the_turns_for_who_does_not(tmp_path: Path) -> None:
    turns: list[tuple[object, object]] = []
    state: object = ""
    async with running(tmp_path, RULES) as gateway:
        for text, final in (("take your", False), ("take your time", True), ("hm", True), ("hm", True), ("hm", True)):
            choice = await say(gateway, text, final=final, state=state)
            state = choice["state"]
            turns.append((choice["number"], choice["rule"]))
    assert turns == [(0, "conversation"), (0, "command"), (1, "command"), (2, "command"), (3, "conversation")]


async def test_a_state_of_another_installation_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, RULES) as gateway:
        state = (await say(gateway, "hello"))["state"]
    async with running(tmp_path, RULES) as gateway:
        answer = await post(gateway, "/v1/tier", {"text": "hello", "state": state})
    assert problem(answer) == (400, "INVALID_ARGUMENTS")


async def test_without_tiers_there_is_nothing_to_choose(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        assert problem(await post(gateway, "/v1/tier", {"text": "hello"})) == (404, "UNKNOWN_TIER")


async def test_a_tier_without_a_limit_or_tools_promises_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, Rules(tiers=(Tier(name="any", default=True),))) as gateway:
        choice = await say(gateway, "hello", number=4)
    assert (choice["limitMs"], choice["expectedMs"], choice["filler"], choice["route"]) == (
        None,
        None,
        True,
        "cascaded",
    )


async def test_tools_carry_their_declared_and_measured_speed_under_the_names_of_the_declaration(
    tmp_path: Path,
) -> None:
    shop = catalog("shop", NOWHERE, ["quick", "new"])
    latency = DeclaredLatency(estimated_duration_ms=30, max_duration_ms=900, idempotent=True, cacheable_seconds=5)
    shop = replace(shop, tools=tuple(replace(tool, latency=latency) for tool in shop.tools))
    state = state_with(quick=40)
    (server,) = state.servers
    at = "2026-01-31T08:59:58Z"
    timed = replace(server, tools=tuple(replace(tool, measured_at=at) for tool in server.tools))
    async with running(tmp_path, shop, RULES, replace(state, servers=(timed,))) as gateway:
        explained = (await get(gateway, "/v1/tools/shop__quick")).message["latency"]
        why = (await get(gateway, "/v1/tools/shop__quick/explain")).message["latency"]
        scores = {score["name"]: score for score in (await get(gateway, "/v1/scores")).message["tools"]}
        new, _ = [tool["latency"] for tool in (await get(gateway, "/v1/tools")).message["tools"]]
    declared = {"estimated_duration_ms": 30, "max_duration_ms": 900, "idempotent": True, "cacheable_seconds": 5}
    assert explained == why == {**declared, "measured_duration_ms": 40, "measured_p99_ms": 40, "measured_at": at}
    assert (scores["shop__quick"]["measuredAt"], scores["shop__new"]["measuredAt"]) == (at, None)
    assert new == {**declared, "measured_duration_ms": None, "measured_p99_ms": None, "measured_at": None}


async def test_a_tool_is_explained_whichever_tier_hides_it(tmp_path: Path) -> None:
    shop = catalog("shop", NOWHERE, ["quick", "slow"])
    state = state_with(quick=40, slow=812)
    state = replace(state, servers=(replace(state.servers[0], round_trip_ms={"cluster": 3.5, "edge": 80.0}),))
    async with running(tmp_path, shop, RULES, state) as gateway:
        slow = (await get(gateway, "/v1/tools/shop__slow/explain")).message
        by_id = (await get(gateway, "/v1/tools/mcp.shop.slow/explain")).message
        unknown = await get(gateway, "/v1/tools/shop__slwo/explain")
    assert slow == by_id
    assert [(tier["tier"], tier["shown"]) for tier in slow["tiers"]] == [
        ("fast", False),
        ("standard", True),
        ("deep", True),
    ]
    assert slow["tiers"][0]["reason"] == WHY
    assert slow["measured"]["quantiles"]["p95Ms"] == 812
    assert slow["measured"]["roundTripMs"] == 3.5
    assert slow["decidedAt"] == "2026-01-31T09:00:00Z"
    assert problem(unknown) == (404, "UNKNOWN_TOOL")
    assert unknown.message["didYouMean"] == "shop__slow"


async def test_a_tool_that_a_policy_leaves_no_calls_is_explained_so(tmp_path: Path) -> None:
    shop = catalog("shop", NOWHERE, ["quick"])
    closed = Policy(
        namespace="default",
        name="closed",
        every=True,
        subjects=(Subject(kind="Any"),),
        rules=(Rule(action="Allow", tools=("*",)),),
        limits=PolicyLimits(calls_per_minute=0),
    )
    async with running(tmp_path, shop, replace(RULES, policies=(closed,))) as gateway:
        why = (await get(gateway, "/v1/tools/shop__quick/explain")).message
        shown = await fairlead("explain", "shop__quick", "--url", f"http://127.0.0.1:{gateway.port}/mcp")
    assert why["noCallsBy"] == "default/closed"
    assert "calls     none: the ToolPolicy default/closed has limits.callsPerMinute: 0" in shown[1]


async def test_the_commands_show_tiers_their_tools_and_the_reasons(tmp_path: Path) -> None:
    shop = catalog("shop", NOWHERE, ["quick", "slow"])
    async with running(tmp_path, shop, RULES, state_with(quick=40, slow=812)) as gateway:
        url = f"http://127.0.0.1:{gateway.port}/mcp"
        fast = await fairlead("tools", "--tier", "fast", "--output", "json", "--url", url)
        deep = await fairlead("tools", "--tier", "deep", "--format", "mcp", "--server", "default/shop", "--url", url)
        wrong = await fairlead("tools", "--tier", "warp", "--url", url)
        table = await fairlead("tiers", "--url", url)
        why = await fairlead("explain", "shop__slow", "--url", url)
        as_json = await fairlead("explain", "shop__slow", "--output", "json", "--url", url)
    assert [tool["name"] for tool in json.loads(fast[1])] == ["shop__quick"]
    assert [tool["name"] for tool in json.loads(deep[1])] == ["shop__quick", "shop__slow"]
    assert wrong[0] == 2
    assert "--tier" in wrong[2]
    assert "(default)" not in table[1]
    assert WHY in table[1]
    assert WHY in why[1]
    assert "p95 812 ms" in why[1]
    assert json.loads(as_json[1])["tiers"][0]["shown"] is False
