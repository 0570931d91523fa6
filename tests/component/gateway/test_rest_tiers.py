"""Tiers over REST: what they show, and the choice of one for a conversation."""

from __future__ import annotations

from pathlib import Path

from fairlead_api.documents.rules import Rules, Tier
from fairlead_api.documents.state import Quantiles, ServerState, State, ToolState
from fairlead_gateway.app import Gateway
from fairlead_operator.publish.compile import compile_rules
from gatewayworld import catalog, running
from restworld import get, post, problem

NOWHERE = "http://127.0.0.1:9/mcp"
RULES = compile_rules([], [], {})
WHY = "over_budget p95=812ms tier=500ms late=5/5 by=recent back=5-in-time"


def measured(**medians: float) -> State:
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
    async with running(tmp_path, shop, RULES, measured(quick=40, slow=812)) as gateway:
        answer = (await get(gateway, "/v1/tiers")).message
    assert answer["decidedAt"] == "2026-01-31T09:00:00Z"
    fast, standard, deep = answer["tiers"]
    assert (fast["name"], fast["default"], fast["tools"], fast["endpoint"]) == ("fast", True, 1, "/mcp/fast")
    assert fast["hidden"] == {"shop__slow": WHY}
    assert (standard["tools"], deep["tools"], deep["hidden"]) == (2, 2, {})


async def test_rest_shows_a_tier_the_same_tools_as_its_endpoint(tmp_path: Path) -> None:
    shop = catalog("shop", NOWHERE, ["quick", "slow"])
    async with running(tmp_path, shop, RULES, measured(quick=40, slow=812)) as gateway:
        default = (await get(gateway, "/v1/tools?format=openai")).message["tools"]
        standard = (await get(gateway, "/v1/tools?format=openai&tier=standard")).message["tools"]
    assert [tool["function"]["name"] for tool in default] == ["shop__quick"]
    assert [tool["function"]["name"] for tool in standard] == ["shop__quick", "shop__slow"]


async def test_a_choice_names_its_rule_and_what_it_means_for_who_waits(tmp_path: Path) -> None:
    shop = catalog("shop", NOWHERE, ["quick", "slow"])
    async with running(tmp_path, shop, RULES, measured(quick=40, slow=1812)) as gateway:
        quick = await say(gateway, "hello", number=4)
        slow = await say(gateway, "do you remember him?", number=4)
    quick.pop("state")
    slow.pop("state")
    assert quick == {
        "tier": "fast", "rule": "default", "matched": None, "limitMs": 500, "expectedMs": 40, "filler": False,
        "route": "direct",
    }  # fmt: skip
    assert slow == {
        "tier": "standard", "rule": "keywords", "matched": "remember*", "limitMs": 1500, "expectedMs": 1812,
        "filler": True, "route": "cascaded",
    }  # fmt: skip


async def test_the_state_carries_a_command_to_the_next_turns_of_any_replica_with_the_key(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with (
        running(tmp_path, RULES, session_key="k") as one,
        running(tmp_path / "other", RULES, session_key="k") as two,
    ):
        first = await say(one, "take your time", number=1)
        second = await say(two, "and the other one?", number=2, state=first["state"])
        last = await say(two, "and the other one?", number=4, state=second["state"])
    assert [choice["rule"] for choice in (first, second, last)] == ["command", "command", "conversation"]


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
