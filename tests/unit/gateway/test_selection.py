"""Views: a target can call exactly the tools that it lists, and lists are assembled once, as bytes."""

from __future__ import annotations

import json

import pytest

from fairlead_api.documents.rules import Rules, Tier
from fairlead_api.meta import ServerKey
from fairlead_api.slices import finish
from fairlead_gateway.catalog.model import build
from fairlead_gateway.core.meta_tools import NAMES
from fairlead_gateway.endpoint.framing import parse_target
from fairlead_gateway.policy.selection import Selection
from fairlead_gateway.policy.tool_list import PIECE
from fairlead_gateway.upstream.upstream_factory import Unreachable
from gatewayworld import catalog
from selections import Upstreams, select


def tool_names(selection: Selection, target: bytes) -> list[str]:
    return [tool["name"] for tool in json.loads(b"".join(selection.targets[target].listing) + b"}")["tools"]]


def test_merged_and_single_endpoints_show_the_tools_under_their_names() -> None:
    selection = select(
        build({"1": catalog("a", "http://a", ["x"]), "2": catalog("b", "http://b", ["y"], namespace="n")})
    )
    assert tool_names(selection, b"/mcp") == ["a__x", "b__y"]
    assert tool_names(selection, b"/servers/default/a/mcp") == ["x"]
    assert tool_names(selection, b"/servers/n/b/mcp") == ["y"]


def test_before_the_first_snapshot_the_merged_endpoint_lists_no_tools() -> None:
    assert tool_names(Selection(), b"/mcp") == []


def test_listed_tools_are_those_that_can_be_called() -> None:
    selection = select(build({"1": catalog("a", "http://a", ["x", "y"], prefix="p")}))
    for target, view in selection.targets.items():
        own = sorted(NAMES) if view.full_view is not None else []
        assert tool_names(selection, target) == [*own, *view.routes]


def test_each_tier_has_an_endpoint() -> None:
    rules = Rules(tiers=(Tier(name="fast"), Tier(name="deep")))
    selection = select(build({"1": catalog("a", "http://a", ["x"]), "r": rules}))
    assert tool_names(selection, b"/mcp/fast") == tool_names(selection, b"/mcp/deep") == ["a__x"]
    assert b"/mcp/other" not in selection.targets


def test_a_list_is_put_together_once() -> None:
    view = select(build({"1": catalog("a", "http://a", ["x"])})).targets[b"/mcp"]
    assert view.listing is view.listing


def test_a_long_list_stays_in_parts_which_are_one_list() -> None:
    names = [f"t{number:04d}" for number in range(2 * PIECE + 1)]
    view = select(build({"1": catalog("a", "http://a", names)})).targets[b"/mcp"]
    assert not view.is_joined
    finish(view.prepare_in_slices())
    assert len(view.listing) > 3
    assert [tool["name"] for tool in json.loads(b"".join(view.listing) + b"}")["tools"]] == [*view.routes]


def test_the_parts_of_a_selection_come_before_what_holds_them() -> None:
    snapshot = build({"1": catalog("a", "http://a", ["x", "y"]), "2": catalog("b", "http://b", ["z"])})
    selection = select(snapshot)
    numbers = {id(part): number for number, part in enumerate(finish(selection.parts_in_slices()))}
    for server in snapshot.servers.values():
        small = [*selection.routes[server.key].values(), *server.tools, *server.catalog.tools]
        assert all(numbers[id(part)] < numbers[id(server)] for part in small)
    assert all(
        numbers[id(held)] < min(numbers[id(view)] for view in selection.targets.values())
        for held in snapshot.merged.values()
    )


def test_routes_of_an_unchanged_server_are_taken_over() -> None:
    same = catalog("same", "http://s", ["x"])
    upstreams = Upstreams()
    first = build({"1": same, "2": catalog("other", "http://o", ["x"])})
    before = select(first, upstreams)
    after = select(build({"1": same, "2": catalog("other", "http://o", ["y"])}, first), upstreams, before)
    key = ServerKey("default", "same")
    assert after.routes[key] is before.routes[key]


def test_routes_follow_when_the_upstream_of_a_server_is_replaced() -> None:
    same = catalog("same", "http://s", ["x"])
    upstreams = Upstreams()
    snapshot = build({"1": same})
    before = select(snapshot, upstreams)
    key = ServerKey("default", "same")
    replaced = upstreams.by_key[key] = Unreachable("another")
    after = select(build({"1": same}, snapshot), upstreams, before)
    assert after.targets[b"/mcp"].routes["same__x"].upstream is replaced


@pytest.mark.parametrize(
    ("target", "endpoint"),
    [
        (b"/mcp", b"/mcp"),
        (b"/mcp?x=1", b"/mcp"),
        (b"/mcp/", b"/mcp"),
        (b"/m%63p", b"/mcp"),
        (b"http://example.com:80/mcp?x", b"/mcp"),
        (b"HTTPS://h/servers/default/a/mcp", b"/servers/default/a/mcp"),
        (b"/servers/default/a/mcp/", b"/servers/default/a/mcp"),
    ],
)
def test_an_endpoint_is_found_in_every_form_of_its_target(target: bytes, endpoint: bytes) -> None:
    parsed = parse_target(target)
    assert parsed is not None
    assert parsed.path == endpoint


@pytest.mark.parametrize(
    "target", [b"/mcp/nope", b"/servers/a/b/mcp", b"/servers/default/a%2Fb/mcp", b"/servers/a/mcp"]
)
def test_an_endpoint_that_does_not_exist_is_still_one(target: bytes) -> None:
    parsed = parse_target(target)
    assert parsed is not None
    assert parsed.path not in select(build({"1": catalog("a", "http://a", ["x"])})).targets


@pytest.mark.parametrize("target", [b"/", b"/mcpx", b"/healthz", b"/mcp/a/b", b"*", b"", b"http://h", b"/servers/a/b"])
def test_other_paths_are_not_endpoints(target: bytes) -> None:
    assert parse_target(target) is None


def test_the_authority_of_an_absolute_target_is_told() -> None:
    parsed = parse_target(b"http://evil.example/mcp")
    assert parsed is not None
    assert parsed.authority == b"evil.example"
