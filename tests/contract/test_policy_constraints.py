"""The table of constraints: each row narrows an attribute of a route, in all views of a rule set with the
constraint."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from fairlead_api.documents.rules import Policy, PolicyLimits, Rule, Rules, Subject, Tier
from fairlead_api.policies.merge import Merged, RuleRef, ServerTiers
from fairlead_gateway.catalog.model import build
from fairlead_gateway.core.route import Route
from fairlead_gateway.policy.constraints import SERVER_ATTRIBUTES, TOOL_ATTRIBUTES
from fairlead_gateway.policy.rules import alters
from fairlead_gateway.policy.selection import Selection
from gatewayworld import catalog
from policyworld import anybody
from selections import select

NPC = anybody("npc")
QA = anybody("qa")
TARGETS = (b"/mcp", b"/mcp/fast", b"/mcp/deep", b"/servers/default/web/mcp", b"/servers/default/web/mcp/deep")
TIERS = (Tier(name="fast", max_latency_ms=500, default=True), Tier(name="deep", call_timeout_ms=100))
ONLY_DECIDES: Mapping[str, str] = {
    "visible": "what is allowed",
    "free": "what is allowed with any arguments",
    "explaining": "whether reasons are told",
    "bare": "servers without tools",
}
"""Members of merged policies that do not narrow what is shown."""
NARROWS: Mapping[str, Any] = {
    "constrained": ((1, RuleRef(0, 0)),),
    "pinned": 1,
    "limits": PolicyLimits(concurrency=1),
    "limited_by": {"concurrency": 0},
    "tiers": {"web": ServerTiers(max="fast")},
    "escaped_servers": frozenset({"web"}),
    "floors": ((1, "deep"),),
    "manual": ((1, 0),),
}


def world(**more: Any) -> Selection:
    """Two servers with two tools each. One subject may use all of them, under a constraint."""
    policy = Policy(namespace="default", name="p", every=True, subjects=(Subject(kind="Agent", name="npc"),), **more)
    documents = {
        str(number): catalog(name, f"http://{name}", ["get", "put"]) for number, name in enumerate(("web", "file"))
    }
    return select(build({**documents, "r": Rules(policies=(policy,), tiers=TIERS)}))


WORLDS: Mapping[str, Mapping[str, Any]] = {
    "constraint": {"rules": (Rule(action="Allow", tools=("*",), arguments={"required": ["q"]}),)},
    "quota": {"limits": PolicyLimits(calls_per_minute=5)},
    "counted": {"limits": PolicyLimits(concurrency=2)},
    "must_escape": {"control_characters": "Escape"},
    "manual": {"auto_run": "ReadOnly"},
}
"""A policy for each row of the table."""


def test_each_row_names_an_attribute_of_a_route_that_narrows_nothing_unless_it_is_set() -> None:
    defaults = {field.name: field.default for field in dataclasses.fields(Route)}
    rows = SERVER_ATTRIBUTES.keys() | TOOL_ATTRIBUTES.keys()
    assert not [row for row in rows if defaults[row]]
    assert rows == WORLDS.keys(), "a new row has a world here"


@pytest.mark.parametrize("row", [*SERVER_ATTRIBUTES, *TOOL_ATTRIBUTES])
@pytest.mark.parametrize("target", TARGETS)
def test_a_constraint_is_on_every_route_of_every_view_of_its_subjects_and_on_no_other(row: str, target: bytes) -> None:
    more = {"rules": (Rule(action="Allow", tools=("*",)),), **WORLDS[row]}
    selection = world(**more)
    rules = selection.views_of(NPC).rules
    view = selection.seen_by(NPC)[target]
    assert len(view.everything) in (2, 4)
    for route in view.everything.values():
        assert route.tool is not None
        read = (
            TOOL_ATTRIBUTES[row](rules).get(route.tool.ref)
            if row in TOOL_ATTRIBUTES
            else SERVER_ATTRIBUTES[row](rules, route.server.key)
        )
        assert read
        assert getattr(route, row) == read
        assert getattr(route.with_time_limit(0.01).with_retries(3), row) == read, "also of a call that has less time"
    assert not any(getattr(route, row) for route in selection.targets[target].everything.values())


@pytest.mark.parametrize("target", TARGETS)
def test_a_view_under_a_constraint_that_hides_nothing_is_that_of_everybody(target: bytes) -> None:
    selection = world(rules=(Rule(action="Allow", tools=("*",)),), limits=PolicyLimits(calls_per_minute=5))
    mine = selection.seen_by(NPC)[target]
    plain = selection.targets[target]
    assert mine is not plain
    assert mine.lists_as(plain)
    assert mine.listing is plain.listing, "the bytes are shared"
    assert mine.resources is plain.resources
    for member in (
        "base",
        "tier",
        "hidden",
        "instructions",
        "server_info",
        "pinned",
        "escaped_servers",
        "hidden_member",
    ):
        assert getattr(mine, member) == getattr(plain, member), member
    assert [*mine.everything] == [*plain.everything]
    assert [route.timeout for route in mine.routes.values()] == [route.timeout for route in plain.routes.values()]


def test_the_default_tier_is_one_view_on_both_of_its_endpoints() -> None:
    targets = world(rules=()).targets
    assert targets[b"/mcp"] is targets[b"/mcp/fast"]
    assert targets[b"/servers/default/web/mcp"] is targets[b"/servers/default/web/mcp/fast"]


@pytest.mark.parametrize("member", Merged.__struct_fields__)
def test_a_merge_of_policies_counts_as_narrowing_unless_it_only_decides(member: str) -> None:
    plain = Merged(3, 3)
    if member in ONLY_DECIDES:
        value: Any = 1 if member in ("visible", "free") else frozenset({"web"})
        assert not alters(msgspec.structs.replace(plain, **{member: value}))
    else:
        assert alters(msgspec.structs.replace(plain, **{member: NARROWS[member]}))
