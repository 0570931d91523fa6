"""Snapshots built from documents: names, order, overrides, collisions, and objects shared with the previous
snapshot."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw

from fairlead_api.documents.catalog import DeclaredLatency, ToolEntry
from fairlead_api.documents.rules import Rules, Tier
from fairlead_api.meta import ServerKey
from fairlead_formats.tools.verbatim import UnusableDefinition, ensure_name, with_name
from fairlead_gateway.catalog.model import Collision, Snapshot, build
from gatewayworld import catalog, entry

ODD = b'{ "description" : "d\\u00e9", "name":"add" ,"inputSchema":{"$defs":{ },"a":1.0}, "x":[1 , 2]}'


def names(snapshot: Snapshot) -> list[str]:
    return list(snapshot.merged)


def test_only_the_name_of_a_definition_changes_under_a_prefix() -> None:
    assert with_name(ODD, name="p__add") == (
        b'{"description":"d\\u00e9","name":"p__add","inputSchema":{"$defs":{ },"a":1.0},"x":[1 , 2]}'
    )


def test_an_override_replaces_or_adds_the_description() -> None:
    assert json.loads(with_name(ODD, name="add", description="ours"))["description"] == "ours"
    assert with_name(b'{"name":"a"}', name="a", description="ours") == b'{"name":"a","description":"ours"}'


def test_a_definition_that_needs_no_change_is_shown_byte_for_byte() -> None:
    assert ensure_name(ODD, name="add") == ODD


@pytest.mark.parametrize("text", [b"[]", b"nope", b'{"name":"\xff"}', b"", b"7"])
def test_a_definition_that_is_not_an_object_cannot_be_shown(text: bytes) -> None:
    with pytest.raises(UnusableDefinition):
        ensure_name(text, name="add")


def test_tools_are_exposed_under_prefix_and_name_in_the_order_of_the_names() -> None:
    snapshot = build({"1": catalog("zeta", "http://z", ["b", "a"]), "2": catalog("alpha", "http://a", ["c"])})
    assert names(snapshot) == ["alpha__c", "zeta__a", "zeta__b"]


def test_the_order_does_not_depend_on_the_order_of_documents_or_tools() -> None:
    first = build({"1": catalog("a", "http://a", ["x", "y"]), "2": catalog("b", "http://b", ["z"])})
    second = build({"2": catalog("a", "http://a", ["y", "x"]), "1": catalog("b", "http://b", ["z"])})
    assert names(first) == names(second)


def test_a_server_without_a_prefix_is_listed_on_its_own_endpoint_only() -> None:
    snapshot = build({"1": catalog("a", "http://a", ["x"], prefix=None)})
    assert names(snapshot) == []
    assert [tool.name for tool in snapshot.servers[ServerKey("default", "a")].tools] == ["x"]


def test_of_two_tools_of_one_name_that_of_the_first_server_by_namespace_and_name_is_shown() -> None:
    snapshot = build(
        {
            "1": catalog("b", "http://b", ["x"], prefix="same", namespace="team-a"),
            "2": catalog("a", "http://a", ["x", "y"], prefix="same", namespace="team-b"),
        }
    )
    winner = ServerKey("team-a", "b")
    dropped = ServerKey("team-b", "a")
    assert snapshot.merged["same__x"][0].key == winner
    assert [(c.exposed_name, c.holder, c.dropped) for c in snapshot.collisions] == [("same__x", winner, dropped)]
    assert "same__y" in snapshot.merged
    assert "fairlead.prefix in an mcp.json" in snapshot.collisions[0].advice
    resource = Collision("note://{id}", winner, dropped)
    assert resource.advice == "a client that needs it connects to /servers/team-b/a/mcp"


def test_a_prefix_and_name_that_join_to_the_same_text_collide_too() -> None:
    snapshot = build({"1": catalog("a", "http://a", ["b__c"]), "2": catalog("z", "http://z", ["c"], prefix="a__b")})
    assert len(snapshot.merged) == len(snapshot.collisions) == 1


def test_a_disabled_tool_is_nowhere() -> None:
    tools = [entry("a", enabled=False), entry("b")]
    snapshot = build({"1": catalog("s", "http://s", tools)})
    assert names(snapshot) == ["s__b"]


def test_a_tool_with_an_unusable_definition_is_left_out_and_said() -> None:
    broken = ToolEntry(name="bad", definition=Raw(b"[]"), hash="", search_hash="")
    server = build({"1": catalog("s", "http://s", [broken, "good"])}).servers[ServerKey("default", "s")]
    assert [tool.name for tool in server.tools] == ["good"]
    assert "'bad' of default/s" in server.problems[0]


def test_a_lost_server_keeps_its_tools_unless_they_are_to_be_removed() -> None:
    lost = catalog("kept", "http://k", ["x"], online=False)
    removed = catalog("removed", "http://r", ["x"], online=False, on_disconnect="Remove")
    assert names(build({"1": lost, "2": removed})) == ["kept__x"]


def test_a_declared_maximum_goes_with_the_tool() -> None:
    tools = [entry("x", latency=DeclaredLatency(max_duration_ms=250))]
    server = build({"1": catalog("s", "http://s", tools)}).servers[ServerKey("default", "s")]
    assert server.tools[0].max_duration_ms == 250


def test_servers_that_did_not_change_are_taken_over_from_the_snapshot_before() -> None:
    same = catalog("same", "http://s", ["x"])
    changing = catalog("other", "http://o", ["x"])
    before = build({"1": same, "2": changing})
    after = build({"1": same, "2": catalog("other", "http://o", ["x", "y"])}, before)
    key = ServerKey("default", "same")
    other = ServerKey("default", "other")
    assert after.servers[key] is before.servers[key]
    assert after.servers[other] is not before.servers[other]


def test_of_two_documents_for_one_server_the_first_by_name_counts() -> None:
    snapshot = build({"b": catalog("s", "http://s", ["late"]), "a": catalog("s", "http://s", ["early"])})
    assert names(snapshot) == ["s__early"]


def test_tiers_come_from_the_rules() -> None:
    assert build({"r": Rules(tiers=(Tier(name="fast"), Tier(name="deep")))}).tiers == ("fast", "deep")
