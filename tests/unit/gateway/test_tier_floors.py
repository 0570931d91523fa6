"""Tier floors in lists and calls: those of servers, those of policies, and both."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead_api.documents.catalog import DeclaredLatency, ToolEntry
from fairlead_api.documents.codec import Document
from fairlead_api.documents.rules import Policy, Rule, Rules, Subject, Tier
from fairlead_api.documents.state import ServerState, State, ToolState
from fairlead_api.policies.index import IndexedServer, ToolIndex
from fairlead_api.policies.merge import merge_policies
from fairlead_gateway.catalog.model import build
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.policy.selection import Selection
from fairlead_operator.latency.tool_record import Declaration, ToolRecord
from gatewayworld import catalog, entry
from policyworld import anybody
from selections import select

TIERS = (
    Tier(name="deep", max_latency_ms=4000),
    Tier(name="fast", max_latency_ms=500),
    Tier(name="standard", max_latency_ms=1500),
)
VOICE = anybody("voice")
TEXT = anybody("text")


def world(*tools: ToolEntry, policies: tuple[Policy, ...] = (), state: State | None = None) -> Selection:
    documents: dict[str, Document] = {
        "c": catalog("s", "http://s", tools),
        "r": Rules(tiers=TIERS, policies=policies),
    }
    return select(build(documents | ({} if state is None else {"s": state})))


def tiers_with(selection: Selection, tool: str, who: Identity = TEXT) -> list[str]:
    """Names of the tiers that list a tool."""
    views = selection.seen_by(who)
    return [name for name in ("fast", "standard", "deep") if f"s__{tool}" in views[f"/mcp/{name}".encode()].routes]


def allow(*tools: str, tier: str | None = None, **more: Any) -> Rule:
    return Rule(action="Allow", tools=tools, min_tier=tier, **more)


def policy(name: str, *rules: Rule, agent: str | None = None) -> Policy:
    subjects = (Subject(kind="Agent", name=agent),) if agent else ()
    return Policy(namespace="default", name=name, every=True, rules=rules, subjects=subjects)


ALL = ["fast", "standard", "deep"]
SLOWER = ["standard", "deep"]
ONLY_DEEP = ["deep"]


@pytest.mark.parametrize(
    ("stated", "authored", "expected"),
    [
        (None, None, ALL),
        ("standard", None, SLOWER),
        (None, "standard", SLOWER),
        ("deep", "fast", ONLY_DEEP),  # the higher of both floors applies
        ("fast", "deep", ONLY_DEEP),
        ("nowhere", None, ONLY_DEEP),
        ("nowhere", "fast", ONLY_DEEP),
        (None, "nowhere", ALL),
        ("standard", "nowhere", SLOWER),
    ],
)
def test_of_the_servers_and_the_authors_floor_the_slower_counts(
    stated: str | None, authored: str | None, expected: list[str]
) -> None:
    selection = world(entry("x", min_tier=stated, authored_min_tier=authored))
    assert tiers_with(selection, "x") == expected
    assert "s__x" in selection.seen_by(TEXT)[b"/mcp"].routes, "a client that names no tier is offered every tool"


def test_measured_latency_raises_a_tool_above_its_floor_and_not_below() -> None:
    quick = ToolState(name="quick", tiers=("fast", "standard", "deep"))
    slow = ToolState(name="slow", tiers=("deep",), hidden={"fast": "over_budget", "standard": "over_budget"})
    state = State(servers=(ServerState(namespace="default", name="s", tools=(quick, slow)),))
    selection = world(entry("quick", min_tier="standard"), entry("slow", min_tier="standard"), state=state)
    assert tiers_with(selection, "quick") == SLOWER
    assert tiers_with(selection, "slow") == ONLY_DEEP


def test_a_list_and_a_late_call_name_the_floor_and_the_tier_that_has_the_tool() -> None:
    view = world(entry("x", min_tier="standard")).seen_by(TEXT)[b"/mcp/fast"]
    hidden = view.hidden["s__x"]
    assert (hidden.reason, hidden.tier) == ("below_min_tier min_tier=standard tier=500ms by=mcpserver", "standard")
    in_time = view.find_unlisted("s__x", hidden.callable_until - 1)
    late = view.find_unlisted("s__x", hidden.callable_until)
    assert in_time is not None
    assert in_time.unavailable is None
    assert late is not None
    assert late.unavailable is not None
    assert late.unavailable.code == "OVER_BUDGET"
    assert "tier standard shows the tool, at /mcp/standard" in late.unavailable.message


def test_the_speech_table_is_a_policy_for_its_agent() -> None:
    speech = policy(
        "speech",
        allow("*", tier="deep"),
        allow("roll", "entities"),
        allow("search", "rules", tier="standard"),
        agent="voice",
    )
    everybody = policy("everybody", allow("*"))
    tools = [entry(name) for name in ("roll", "entities", "search", "rules", "write")]
    selection = world(*tools, policies=(everybody, speech))
    assert {name: tiers_with(selection, name, VOICE) for name in ("roll", "entities", "search", "rules", "write")} == {
        "roll": ALL,
        "entities": ALL,
        "search": SLOWER,
        "rules": SLOWER,
        "write": ONLY_DEEP,
    }
    assert tiers_with(selection, "write", TEXT) == ALL, "the policy speaks of its agent alone"


def test_a_policys_floor_holds_at_once_and_tells_the_tier_that_it_leaves() -> None:
    view = world(entry("x"), policies=(policy("p", allow("*", tier="standard")),)).seen_by(TEXT)[b"/mcp/fast"]
    route = view.find_unlisted("s__x", now=0.0)
    assert route is not None
    assert route.unavailable is not None
    assert (
        "below_min_tier min_tier=standard tier=500ms by=policy; tier standard shows the tool"
        in route.unavailable.message
    )


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ((policy("p", allow("x", tier="deep"), allow("*", tier="standard")),), SLOWER),
        ((policy("p", allow("x", tier="deep")), policy("q", allow("x", tier="standard"))), ONLY_DEEP),
        ((policy("p", allow("x", tier="deep")), policy("q", allow("x"))), ONLY_DEEP),
        ((policy("p", allow("x", tier="deep")), policy("q", allow("y"))), ONLY_DEEP),
        ((policy("p", allow("x", tier="nowhere")),), ONLY_DEEP),
        ((policy("p", allow("x", tier="deep", arguments={}), allow("x", tier="standard")),), SLOWER),
        ((policy("p", allow("x", arguments={}), allow("x", tier="deep")),), ONLY_DEEP),
        ((policy("p", allow("x", arguments={}), allow("x", tier="deep", arguments={"maxProperties": 1})),), ONLY_DEEP),
    ],
)
def test_of_one_policys_rules_the_fastest_floor_counts_and_of_several_policies_the_slowest(
    policies: tuple[Policy, ...], expected: list[str]
) -> None:
    assert tiers_with(world(entry("x"), entry("y"), policies=policies), "x", VOICE) == expected


def test_a_policy_cannot_lower_the_floor_of_a_server_nor_the_place_where_latency_puts_a_tool() -> None:
    slow = ToolState(name="slow", tiers=("deep",), hidden={"fast": "over_budget", "standard": "over_budget"})
    state = State(servers=(ServerState(namespace="default", name="s", tools=(slow,)),))
    selection = world(
        entry("floored", min_tier="deep"),
        entry("slow"),
        policies=(policy("p", allow("*", tier="standard")),),
        state=state,
    )
    assert tiers_with(selection, "floored") == ONLY_DEEP
    assert tiers_with(selection, "slow") == ONLY_DEEP
    hidden = selection.seen_by(TEXT)[b"/mcp/standard"].hidden["s__slow"]
    assert (hidden.reason, hidden.tier) == ("over_budget", "deep")


def test_a_policy_that_only_restricts_somebody_gives_its_floor_all_the_same() -> None:
    index = ToolIndex([IndexedServer("s", (entry("x"),), trusted=False)])
    policies = {0: policy("q", allow("*")), 1: policy("p", allow("*", tier="deep"))}
    merge = merge_policies(index, policies, (0, ~1), allow_by_default=True, ranks={"fast": 0, "deep": 1})
    assert (merge.visible, merge.floors) == (1, ((1, "deep"),))


@pytest.mark.parametrize(
    ("unmeasured", "estimated_ms", "untrusted", "expected"),
    [
        ("Show", 3000, True, ONLY_DEEP),
        ("Show", 40, True, ALL),
        ("Hide", 40, True, []),
        ("Hide", 3000, True, []),
        ("Hide", 40, False, ALL),
        ("Hide", None, False, []),
    ],
)
def test_an_estimate_of_an_author_who_is_not_trusted_takes_out_of_tiers_and_puts_into_none(
    unmeasured: str, estimated_ms: int | None, untrusted: bool, expected: list[str]
) -> None:
    tiers = tuple(msgspec.structs.replace(tier, unmeasured=unmeasured) for tier in TIERS)
    latency = DeclaredLatency(estimated_duration_ms=estimated_ms, estimate_untrusted=untrusted)
    documents: dict[str, Document] = {
        "c": catalog("s", "http://s", [entry("roll", latency=latency)]),
        "r": Rules(tiers=tiers),
    }
    assert tiers_with(select(build(documents)), "roll") == expected
    declaration = Declaration(estimated_ms, untrusted=untrusted)
    record = ToolRecord(tiers, declaration, now=0.0)
    assert [name for name in ALL if name in record.tiers] == expected, "the operator decides alike"
