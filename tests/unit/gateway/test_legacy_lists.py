"""Lists for clients of 2025-11-25 and earlier differ only in definitions that need it, at every endpoint, for every
subject."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_api.documents.codec import Document
from fairlead_api.documents.rules import Policy, Rule, Rules
from fairlead_gateway.catalog.model import build
from fairlead_gateway.core.meta_tools import NAMES
from fairlead_gateway.policy.router import ROUTER
from fairlead_gateway.policy.selection import Selection
from fairlead_gateway.policy.view import View
from gatewayworld import catalog, entry
from policyworld import anybody
from selections import select

NPC = anybody("npc", "players")
OBJECT = {"type": "object"}
SAME = entry({"name": "same", "inputSchema": OBJECT})
LISTS = entry({"name": "lists", "inputSchema": OBJECT, "outputSchema": {"type": "array"}, "description": "a\x07b"})
NEW = entry({"name": "new", "inputSchema": {"type": "object", "required": "a"}})


def policy(*rules: Rule, **more: Any) -> Policy:
    everything = Rule(action="Allow", tools=("*",))
    return Policy(namespace="default", name="p", every=True, rules=(everything, *rules), **more)


def select_tools(*tools: Any, rules: Rules | None = None, with_latency: bool = False) -> Selection:
    documents: dict[str, Document] = {"1": catalog("s", "http://s", tools)}
    if rules is not None:
        documents["r"] = rules
    return select(build(documents), with_latency=with_latency)


def lists(view: View) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tools of the modern and of the legacy list, by name."""
    both = (json.loads(b"".join(parts) + b"}")["tools"] for parts in (view.listing, view.legacy_listing))
    modern, legacy = ({tool["name"]: tool for tool in tools} for tools in both)
    return modern, legacy


@pytest.mark.parametrize(("target", "prefix"), [(b"/mcp", "s__"), (b"/servers/default/s/mcp", "")])
def test_definitions_differ_and_are_left_out_for_legacy_clients_at_every_endpoint(target: bytes, prefix: str) -> None:
    view = select_tools(SAME, LISTS, NEW).targets[target]
    modern, legacy = lists(view)
    assert [*modern] == [f"{prefix}lists", f"{prefix}new", f"{prefix}same"] == [*view.routes]
    assert [*legacy] == [f"{prefix}lists", f"{prefix}same"]
    assert modern[f"{prefix}lists"] == {**legacy[f"{prefix}lists"], "outputSchema": {"type": "array"}}
    assert modern[f"{prefix}same"] == legacy[f"{prefix}same"]
    assert sum(map(len, view.parts)) == sum(map(len, (*view.listing, *view.legacy_listing)))


def test_a_list_without_a_definition_that_differs_is_one_for_both_eras() -> None:
    view = select_tools(SAME).targets[b"/mcp"]
    assert view.legacy_listing is view.listing
    assert view.parts is view.listing


def test_a_list_is_one_for_both_eras_where_policies_deny_the_tool_that_differs() -> None:
    rules = Rules(default_action="Allow", policies=(policy(Rule(action="Deny", tools=("lists", "new"))),))
    view = select_tools(SAME, LISTS, NEW, rules=rules).seen_by(NPC)[b"/mcp"]
    assert view.legacy_listing is view.listing
    assert [*lists(view)[0]] == ["s__same"]


def test_control_characters_are_made_visible_in_the_legacy_list_too() -> None:
    rules = Rules(default_action="Allow", policies=(policy(control_characters="Escape"),))
    modern, legacy = lists(select_tools(LISTS, NEW, rules=rules).seen_by(NPC)[b"/mcp"])
    assert modern["s__lists"]["description"] == legacy["s__lists"]["description"] == r"a\u0007b"


def test_figures_of_speed_are_in_the_legacy_list_too() -> None:
    modern, legacy = lists(select_tools(LISTS, NEW, with_latency=True).targets[b"/mcp"])
    assert modern["s__lists"]["_meta"] == legacy["s__lists"]["_meta"] != {}


def test_pinned_tools_of_the_router_endpoint_differ_for_legacy_clients() -> None:
    rules = Rules(default_action="Allow", policies=(policy(pinned=("lists", "new")),))
    modern, legacy = lists(select_tools(SAME, LISTS, NEW, rules=rules).seen_by(NPC)[ROUTER])
    assert {*modern} - {*NAMES} == {"s__lists", "s__new"}
    assert {*legacy} - {*NAMES} == {"s__lists"}
    assert "outputSchema" not in legacy["s__lists"]
