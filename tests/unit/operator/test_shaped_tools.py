"""Tools of a catalog that `spec.tools` reshapes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from fairlead_api.documents.catalog import Catalog, HttpEndpoint, definition_hash
from fairlead_api.v1alpha1.causes import Cause
from fairlead_mcp.server_listing import RawListing
from fairlead_operator.calibration.plan import plan
from fairlead_operator.discovery.catalog_build import CallAccess, build_catalog
from fairlead_operator.discovery.findings import ListingFindings
from operatorfakes import URL, mcp_server

SEARCH: dict[str, Any] = {
    "name": "search_v2",
    "title": "Search",
    "description": "Searches.",
    "annotations": {"readOnlyHint": False, "openWorldHint": True},
    "inputSchema": {
        "type": "object",
        "properties": {"q": {"type": "string"}, "tenant": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["q", "tenant"],
    },
    "outputSchema": {"type": "object"},
    "x-unknown": [1.0],
}


def build(*tools: dict[str, Any], **spec: Any) -> tuple[Catalog, ListingFindings]:
    """Catalog of a server that lists these tools."""
    raws = tuple(Raw(msgspec.json.encode({"inputSchema": {"type": "object"}, **tool})) for tool in tools)
    listing = RawListing(protocol_version="2026-07-28", tools=raws)
    return build_catalog(mcp_server(**spec), listing, CallAccess(HttpEndpoint(url=URL), None, "demo"))


def build_shaped(override: dict[str, Any], *others: dict[str, Any], **spec: Any) -> tuple[Catalog, ListingFindings]:
    return build(SEARCH, *others, tools=[{"name": "search_v2", **override}], **spec)


def shown_definition(override: dict[str, Any]) -> dict[str, Any]:
    catalog, remarks = build_shaped(override)
    assert remarks.faults == ()
    definition: dict[str, Any] = json.loads(bytes(catalog.tools[0].shown_definition))
    return definition


def test_a_tool_without_a_shape_has_none() -> None:
    catalog, _ = build_shaped({"description": "other", "tags": ["a"]})
    assert catalog.tools[0].shape is None


def test_clients_see_the_shape_while_hash_and_definition_stay_the_servers() -> None:
    override = {
        "as": "find",
        "annotations": {"readOnlyHint": True, "title": "Find"},
        "arguments": {
            "q": {"as": "query", "description": "What to look for"},
            "tenant": {"value": "acme"},
            "limit": {"default": 5},
        },
    }
    catalog, remarks = build_shaped(override)
    tool = catalog.tools[0]
    assert tool.name == "search_v2"
    assert tool.hash == definition_hash(bytes(tool.definition))
    assert json.loads(bytes(tool.definition)) == SEARCH
    assert tool.shape is not None
    assert (tool.shape.name, tool.shape.arguments) == ("find", {"query": "q"})
    assert (tool.shape.hidden, tool.shape.values, tool.shape.defaults) == (
        ("tenant",),
        {"tenant": "acme"},
        {"limit": 5},
    )
    assert json.loads(bytes(tool.shape.definition)) == {
        **SEARCH,
        "name": "find",
        "title": "Find",
        "annotations": {"readOnlyHint": True, "openWorldHint": True, "title": "Find"},
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for"},
                "limit": {"type": "integer", "default": 5},
            },
            "required": ["query"],
        },
    }
    assert remarks.faults == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("title", "Find"),
        ("readOnlyHint", True),
        ("destructiveHint", False),
        ("idempotentHint", True),
        ("openWorldHint", False),
    ],
)
def test_each_annotation_replaces_that_of_the_server(name: str, value: object) -> None:
    assert shown_definition({"annotations": {name: value}})["annotations"] == {**SEARCH["annotations"], name: value}


def test_a_changed_shape_renews_the_search_index() -> None:
    (before, _), (after, _) = build_shaped({"as": "find"}), build_shaped({"as": "look"})
    assert before.tools[0].search_hash != after.tools[0].search_hash
    assert before.tools[0].hash == after.tools[0].hash


@pytest.mark.parametrize(
    ("override", "why"),
    [
        ({"arguments": {"tenant": {"hidden": True}}}, "the hidden argument 'tenant' is required and has no value"),
        ({"arguments": {"tenant": {"value": 7}}}, "the value of the argument 'tenant' does not match its schema"),
        ({"arguments": {"gone": {"value": 7}}}, "the tool has no argument 'gone'"),
        ({"arguments": {"q": {"as": "limit"}}}, "would both be called 'limit'"),
        ({"result": {"select": "a["}}, "result.select: not a JMESPath expression"),
        ({"result": {"schema": {"type": 7}}}, "result.schema: "),
        ({"as": "other"}, "as: the tool 'other' is called 'other' too"),
    ],
)
def test_a_tool_that_cannot_have_its_shape_is_left_out_alone_with_the_reason(
    override: dict[str, Any], why: str
) -> None:
    catalog, remarks = build_shaped(override, {"name": "other"})
    assert [tool.name for tool in catalog.tools] == ["other"]
    (fault,) = remarks.faults
    assert fault.cause is Cause.INVALID_SHAPES
    assert why in fault.why
    assert remarks.tools_left_out == 1
    verdict = remarks.verdict()
    assert verdict.cause is Cause.INVALID_SHAPES
    assert "search_v2" in verdict.message
    assert why in verdict.message


def test_tools_may_swap_names_and_a_disabled_tool_keeps_none() -> None:
    tools = [
        {"name": "a", "as": "b"},
        {"name": "b", "as": "a"},
        {"name": "c", "as": "d"},
        {"name": "d", "enabled": False},
    ]
    catalog, remarks = build(*({"name": name} for name in "abcd"), tools=tools)
    assert remarks.faults == ()
    assert {tool.name: tool.shown_name for tool in catalog.tools} == {"a": "b", "b": "a", "c": "d", "d": "d"}


def test_of_two_tools_with_one_new_name_the_first_by_name_is_kept() -> None:
    tools = [{"name": "a", "as": "x"}, {"name": "b", "as": "x"}]
    catalog, remarks = build({"name": "a"}, {"name": "b"}, tools=tools)
    assert [tool.name for tool in catalog.tools] == ["a"]
    assert [fault.name for fault in remarks.faults] == ["b"]


def test_a_described_argument_that_the_tool_lacks_is_only_noted() -> None:
    catalog, remarks = build_shaped({"arguments": {"gone": {"description": "d"}, "q": {"description": "What"}}})
    assert len(catalog.tools) == 1
    assert remarks.notes == ("tool 'search_v2': spec.tools describes arguments that the tool seems to lack: gone",)


def test_probes_send_the_values_of_every_call() -> None:
    override = {"arguments": {"tenant": {"value": "acme"}}, "probe": {"arguments": {"q": "x", "tenant": "mine"}}}
    catalog, _ = build_shaped(override)
    (probe,) = plan(mcp_server(), catalog).probes
    assert json.loads(probe.arguments) == {"q": "x", "tenant": "acme"}


SECRET: dict[str, Any] = {"arguments": {"tenant": {"secretRef": {"name": "s"}, "value": "ignored", "as": "other"}}}


def test_an_argument_with_a_secret_is_hidden_and_its_value_is_nowhere_in_the_catalog() -> None:
    catalog, _ = build_shaped(SECRET)
    shape = catalog.tools[0].shape
    assert shape is not None
    assert (shape.hidden, shape.secrets, shape.values, shape.arguments) == (("tenant",), ("tenant",), {}, {})
    assert json.loads(bytes(shape.definition))["inputSchema"]["required"] == ["q"]


def test_a_tool_with_a_secret_is_not_probed() -> None:
    catalog, _ = build_shaped({**SECRET, "probe": {"arguments": {"q": "x"}}})
    assert plan(mcp_server(), catalog).probes == ()


def test_an_argument_that_is_sent_in_a_header_cannot_be_a_secret() -> None:
    schema = {"type": "object", "properties": {"key": {"type": "string", "x-mcp-header": "Key"}}}
    tools = [{"name": "a", "arguments": {"key": {"secretRef": {"name": "s"}}}}]
    catalog, remarks = build({"name": "a", "inputSchema": schema}, tools=tools)
    assert catalog.tools == ()
    assert "'key' is sent in a header too" in remarks.faults[0].why
