"""Catalogs built from servers' lists and from manifests."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from fairlead_api.documents.catalog import Catalog, DeclaredLatency, HttpEndpoint
from fairlead_api.v1alpha1.mcpserver import ToolOverride
from fairlead_mcp.server_listing import RawListing
from fairlead_operator.discovery.catalog_build import CallAccess, build_catalog
from fairlead_operator.discovery.findings import ListingFindings
from operatorfakes import URL, mcp_server

REACHED = CallAccess(HttpEndpoint(url=URL), None, "demo")


def listing_of(*tools: dict[str, Any] | bytes, **more: Any) -> RawListing:
    raws = tuple(Raw(t if isinstance(t, bytes) else msgspec.json.encode(t)) for t in tools)
    return RawListing(protocol_version="2026-07-28", tools=raws, **more)


def build(*tools: dict[str, Any] | bytes, **spec: Any) -> tuple[Catalog, ListingFindings]:
    """Build from a list of these tools. A tool without an inputSchema gets one, unless it is given as bytes."""
    whole = [t if isinstance(t, bytes) else {"inputSchema": {"type": "object"}, **t} for t in tools]
    return build_catalog(mcp_server(**spec), listing_of(*whole), REACHED)


def test_a_definition_stays_as_it_was_sent_byte_for_byte() -> None:
    raw = b'{ "x-unknown" : [1.0, 2e3], "name":"a", "inputSchema":{"type":"object"}, "description":"\\u00e9\xc3\xa9" }'
    catalog, remarks = build(raw)
    assert bytes(catalog.tools[0].definition) == raw
    assert remarks == ListingFindings(listed=1)


def test_the_order_in_which_a_server_lists_changes_nothing() -> None:
    tools = [{"name": f"t{number}"} for number in range(20)]
    first, _ = build(*tools)
    random.Random(1).shuffle(tools)
    second, _ = build(*tools)
    assert first == second
    assert [tool.name for tool in first.tools] == sorted(tool.name for tool in first.tools)


def test_overrides_of_tools_that_are_left_out_count_as_listed() -> None:
    _, remarks = build({"name": "a"}, {"name": "b", "inputSchema": 1})
    overrides = [ToolOverride(name=name) for name in ("gone", "a", "b", "away")]
    assert (remarks.offered, remarks.unlisted_overrides(overrides)) == (("a",), ["away", "gone"])


def test_named_tools_none_of_which_are_named_are_told_with_their_number() -> None:
    tools = [{"name": name} for name in "abc"]
    _, misshapen = build(
        *tools, discovery={"tools": "Named"}, tools=[{"name": "a", "arguments": {"gone": {"hidden": True}}}]
    )
    assert "no tool is offered" not in misshapen.verdict().message
    _, nothing_named = build(*tools, discovery={"tools": "Named"}, tools=[{"name": "gone"}])
    message = nothing_named.verdict().message
    assert "no tool is offered: spec.discovery.tools is Named, and spec.tools names none of the 3" in message
    for spec in ({"discovery": {"tools": "Named"}, "tools": [{"name": "b"}]}, {}):
        _, remarks = build(*tools, **spec)
        assert remarks.verdict().message == "the server answered tools/list"


@pytest.mark.parametrize(
    ("meta", "latency", "expected"),
    [
        (None, None, None),
        ({"fairlead.dev/latency": {"estimatedDurationMs": 5}}, None, DeclaredLatency(estimated_duration_ms=5)),
        (
            {"estimated_duration_ms": 5, "max_duration_ms": 9.6},
            None,
            DeclaredLatency(estimated_duration_ms=5, max_duration_ms=10),
        ),
        (
            {"fairlead.dev/latency": {"estimatedDurationMs": 5, "idempotent": True}},
            {"estimated": "7ms", "cacheable": "0s"},
            DeclaredLatency(estimated_duration_ms=7, idempotent=True, cacheable_seconds=0),
        ),
        (
            {"estimated_duration_ms": 5, "max_duration_ms": 9, "idempotent": True, "cacheable_seconds": 60},
            None,
            DeclaredLatency(estimated_duration_ms=5, max_duration_ms=9, idempotent=True, cacheable_seconds=60),
        ),
        (
            {
                "fairlead.dev/estimated_duration_ms": 5,
                "fairlead.dev/max_duration_ms": 9,
                "fairlead.dev/idempotent": False,
                "fairlead.dev/cacheable_seconds": 60,
                "estimated_duration_ms": 6,
                "idempotent": True,
            },
            None,
            DeclaredLatency(estimated_duration_ms=5, max_duration_ms=9, idempotent=False, cacheable_seconds=60),
        ),
        ({"idempotent": "yes", "cacheable_seconds": [], "fairlead.dev/max_duration_ms": None}, None, None),
        ({"fairlead.dev/latency": {"estimatedDurationMs": "fast", "idempotent": "yes"}}, None, None),
        ({"fairlead.dev/latency": {"estimatedDurationMs": -1, "maxDurationMs": True}}, None, None),
        ({"fairlead.dev/latency": "fast"}, None, None),
    ],
)
def test_declared_latency_is_the_manifests_word_before_the_authors(
    meta: Any, latency: dict[str, Any] | None, expected: DeclaredLatency | None
) -> None:
    spec: dict[str, Any] = {"tools": [{"name": "a", "latency": latency}]} if latency else {}
    definition = {"name": "a"} if meta is None else {"name": "a", "_meta": meta}
    catalog, _ = build(definition, trustAnnotations=True, **spec)
    assert catalog.tools[0].latency == expected


@pytest.mark.parametrize(
    ("definition", "floor", "note"),
    [
        ({"_meta": {"fairlead.dev/min_tier": "deep"}}, "deep", ""),
        ({"_meta": {"minTier": "deep"}, "annotations": {"min_tier": "fast"}}, "deep", ""),
        ({"_meta": {"fairlead.dev/latency": {"minTier": "deep"}}}, "deep", ""),
        ({"_meta": {"fairlead.dev/min_tier": "Deep Thought"}}, None, "not the name of a latency tier"),
        ({"_meta": {"fairlead.dev/min_tier": ["deep"]}}, None, "not the name of a latency tier"),
        ({"_meta": {"fairlead.dev/min_tier": "x" * 100_000}}, None, "not the name of a latency tier"),
    ],
)
def test_an_authors_floor_stands_beside_the_manifests(definition: dict[str, Any], floor: str | None, note: str) -> None:
    catalog, remarks = build({"name": "a", **definition}, tools=[{"name": "a", "minTier": "standard"}])
    assert (catalog.tools[0].min_tier, catalog.tools[0].authored_min_tier) == ("standard", floor)
    assert note in "".join(remarks.lines)
    assert len("".join(remarks.lines)) < 500


@pytest.mark.parametrize(
    "definition",
    [
        {"estimated_duration_ms": 3000},
        {"estimatedDurationMs": "3000"},
        {"annotations": {"estimated_duration_ms": 3000.2, "readOnlyHint": True}},
        {"inputSchema": {"type": "object", "estimated_duration_ms": "3000.0"}},
        {"inputSchema": {"type": "object", "fairlead.dev/latency": {"estimatedDurationMs": 3000}}},
        {"_meta": {"fairlead.dev/estimated_duration_ms": "3000"}, "estimated_duration_ms": 1},
        {"_meta": {"estimated_duration_ms": None}, "annotations": {"fairlead.dev/estimatedDurationMs": 3000}},
    ],
)
def test_latency_is_found_wherever_an_author_puts_it(definition: dict[str, Any]) -> None:
    catalog, remarks = build({"name": "a", **definition})
    latency = catalog.tools[0].latency
    assert latency is not None
    assert latency.estimated_duration_ms == 3000
    assert remarks.lines == ()


@pytest.mark.parametrize(
    ("definition", "sentence"),
    [
        ({"max_duration_ms": "fast"}, 'max_duration_ms is "fast", not a number of milliseconds'),
        ({"_meta": {"max_duration_ms": -1}}, "_meta.max_duration_ms is -1, not a number of milliseconds"),
        ({"annotations": {"idempotent": "yes"}}, 'annotations.idempotent is "yes", not true or false'),
        (
            {"inputSchema": {"type": "object", "fairlead.dev/latency": {"cacheableSeconds": [1]}}},
            "inputSchema[fairlead.dev/latency].cacheableSeconds is [1], not a number of seconds",
        ),
        ({"max_duration_ms": "\u202e\u001b[" + "x" * 99}, 'max_duration_ms is "\\u202e\\u001b[' + "x" * 31 + "…"),
    ],
)
def test_only_a_value_that_cannot_be_used_is_warned_of(definition: dict[str, Any], sentence: str) -> None:
    catalog, remarks = build({"name": "a", **definition})
    assert catalog.tools[0].latency is None
    (line,) = remarks.lines
    assert line.startswith(f"tool 'a': {sentence}")


@pytest.mark.parametrize("value", [b"1e400", b'"\\ud800"', b"[" * 5000 + b"]" * 5000])
@pytest.mark.parametrize("template", [b"%s", b'"_meta":{%s}', b'"annotations":{%s}'])
def test_no_value_that_an_author_sends_costs_the_server_its_tools(template: bytes, value: bytes) -> None:
    member = template.replace(b"%s", b'"max_duration_ms":' + value)
    catalog, _ = build({"name": "b"}, b'{"name":"a","inputSchema":{"type":"object"},' + member + b"}")
    assert {tool.name: tool.latency for tool in catalog.tools}.get("a") is None
    assert "b" in {tool.name for tool in catalog.tools}


@pytest.mark.parametrize(
    ("trusted", "stated", "untrusted"), [(True, None, False), (False, None, True), (False, "7ms", False)]
)
def test_an_estimate_of_an_author_who_is_not_trusted_is_told_from_others(
    *, trusted: bool, stated: str | None, untrusted: bool
) -> None:
    spec: dict[str, Any] = {} if stated is None else {"tools": [{"name": "a", "latency": {"estimated": stated}}]}
    definition = {"name": "a", "_meta": {"fairlead.dev/estimated_duration_ms": 5}}
    catalog, _ = build(definition, trustAnnotations=trusted, **spec)
    latency = catalog.tools[0].latency
    assert latency is not None
    assert (latency.estimated_duration_ms, latency.estimate_untrusted) == (7 if stated else 5, untrusted)


@pytest.mark.parametrize(("idempotent", "expected"), [(None, None), (True, True), (False, False)])
def test_an_author_who_is_not_trusted_cannot_have_calls_repeated(
    idempotent: bool | None, expected: bool | None
) -> None:
    spec: dict[str, Any] = (
        {} if idempotent is None else {"tools": [{"name": "a", "latency": {"idempotent": idempotent}}]}
    )
    definition = {"name": "a", "_meta": {"fairlead.dev/latency": {"estimatedDurationMs": 5, "idempotent": True}}}
    catalog, _ = build(definition, trustAnnotations=False, **spec)
    latency = catalog.tools[0].latency
    assert latency is not None
    assert (latency.estimated_duration_ms, latency.idempotent) == (5, expected)


@pytest.mark.parametrize(
    ("spec", "advised"),
    [
        ({}, True),
        ({"trustAnnotations": False}, False),
        ({"trustAnnotations": True}, False),
        ({"url": None, "image": {"name": "demo:1"}}, False),
    ],
)
@pytest.mark.parametrize(
    "members",
    [
        {"_meta": {"idempotent": True}},
        {"annotations": {"readOnlyHint": True}},
        {"annotations": {"idempotentHint": True}},
    ],
)
def test_the_status_of_a_url_server_says_how_its_authors_word_would_count(
    members: dict[str, Any], spec: dict[str, Any], advised: bool
) -> None:
    _, remarks = build({"name": "a", **members}, {"name": "b"}, **spec)
    advice = "; 1 tool says that calls may be repeated, which is ignored: to trust it, set spec.trustAnnotations: true"
    assert remarks.verdict().message == "the server answered tools/list" + (advice if advised else "")


def test_resources_templates_and_prompts_are_named_by_what_identifies_them() -> None:
    everything = listing_of(
        resources=(Raw(b'{"uri":"file:///b","name":"n"}'), Raw(b'{"uri":"file:///a","name":"n"}')),
        resource_templates=(Raw(b'{"uriTemplate":"file:///{x}","name":"n"}'),),
        prompts=(Raw(b'{"name":"p"}'),),
    )
    catalog, remarks = build_catalog(mcp_server(), everything, REACHED)
    assert [d.name for d in catalog.resources] == ["file:///a", "file:///b"]
    assert [d.name for d in catalog.resource_templates] == ["file:///{x}"]
    assert [d.name for d in catalog.prompts] == ["p"]
    assert remarks == ListingFindings(listed=4)


def test_limits_of_a_tool_are_published_with_it() -> None:
    rule = {"name": "a", "limits": {"callsPerMinute": 60}, "speech": "Silent"}
    catalog, _ = build({"name": "a"}, {"name": "b"}, tools=[rule])
    assert [(tool.calls_per_minute, tool.concurrency) for tool in catalog.tools] == [(60, None), (None, None)]
    assert [tool.speech for tool in catalog.tools] == ["Silent", None]


def test_the_length_of_results_is_the_mcpservers_else_its_authors() -> None:
    own = {"_meta": {"fairlead.dev/result_tokens": 3000}}
    declared: list[Any] = [{"name": "a", **own}, {"name": "b", **own}, {"name": "c", "result_tokens": 3}]
    catalog, remarks = build(*declared, tools=[{"name": "b", "limits": {"resultTokens": 500}}])
    assert [tool.result_tokens for tool in catalog.tools] == [3000, 500, None]
    assert "not a number of at least 200 tokens" in " ".join(remarks.notes)


def test_the_hash_changes_with_any_definition_and_with_nothing_else() -> None:
    base, _ = build({"name": "a"}, {"name": "b"})
    assert build({"name": "a"}, {"name": "b"}, tools=[{"name": "a", "tags": ["t"]}])[0].hash == base.hash
    assert build({"name": "a"}, {"name": "b", "title": "B"})[0].hash != base.hash
    assert build({"name": "a"})[0].hash != base.hash


def test_instructions_and_required_capabilities_are_part_of_the_hash() -> None:
    tools = ({"name": "a", "inputSchema": {"type": "object"}},)
    answers = [
        listing_of(*tools),
        listing_of(*tools, instructions="x"),
        listing_of(*tools, instructions="y"),
        listing_of(*tools, requires={"a": ("sampling",)}),
    ]
    hashes = {build_catalog(mcp_server(), answer, REACHED)[0].hash for answer in answers}
    assert len(hashes) == 4


def test_instructions_without_end_are_left_out_and_noted() -> None:
    catalog, remarks = build_catalog(mcp_server(), listing_of(instructions="x" * (256 << 10)), REACHED)
    assert catalog.instructions is not None
    catalog, remarks = build_catalog(mcp_server(), listing_of(instructions="x" * ((256 << 10) + 1)), REACHED)
    assert catalog.instructions is None
    assert remarks.notes == ("the server's instructions are left out: they have more than 256 KiB",)


def test_the_search_hash_changes_with_tags_and_description_and_not_with_unknown_members() -> None:
    def search(definition: dict[str, Any], **spec: Any) -> str:
        return build(definition, **spec)[0].tools[0].search_hash

    base = search({"name": "a", "description": "d"})
    assert search({"name": "a", "description": "d", "x": 1}) == base
    assert search({"name": "a", "description": "e"}) != base
    assert search({"name": "a", "description": "d"}, tools=[{"name": "a", "tags": ["t"]}]) != base


@pytest.mark.parametrize(
    ("name", "tags"),
    [
        ("stock-read_item", ("stock",)),
        ("stock-read-item", ("stock",)),
        ("read_item", ()),
        ("-read", ()),
        ("stock-", ()),
        (f"{'s' * 64}-read", ()),
    ],
)
def test_the_name_of_a_server_behind_a_gateway_is_a_tag_of_its_tools(name: str, tags: tuple[str, ...]) -> None:
    catalog, _ = build({"name": name}, discovery={"tagSeparator": "-"})
    assert catalog.tools[0].tags == tags
    assert build({"name": name})[0].tools[0].tags == ()


def test_a_tag_from_the_name_stands_behind_those_of_the_spec_and_once() -> None:
    declared = [{"name": "a-x", "tags": ["own"]}, {"name": "b-x", "tags": ["b"]}]
    catalog, _ = build({"name": "a-x"}, {"name": "b-x"}, tools=declared, discovery={"tagSeparator": "-"})
    assert [tool.tags for tool in catalog.tools] == [("own", "a"), ("b",)]


def test_unnamed_tools_are_not_offered_where_tools_are_named() -> None:
    named = [{"name": "a"}, {"name": "b", "enabled": False}]
    catalog, _ = build({"name": "a"}, {"name": "b"}, {"name": "c"}, tools=named, discovery={"tools": "Named"})
    assert [tool.name for tool in catalog.tools if tool.enabled] == ["a"]
    catalog, _ = build({"name": "a"}, {"name": "b"}, {"name": "c"}, tools=named)
    assert [tool.name for tool in catalog.tools if tool.enabled] == ["a", "c"]


def test_the_burst_of_a_server_is_published_and_by_default_the_calls_of_a_minute() -> None:
    def burst(**limits: int) -> int | None:
        return build({"name": "a"}, limits=limits)[0].limits.burst

    assert (burst(), burst(callsPerMinute=60), burst(callsPerMinute=60, burst=1)) == (None, 60, 1)


def test_manifest_fields_that_the_gateway_needs_are_in_the_catalog() -> None:
    catalog, _ = build(
        {"name": "a"},
        image={"name": "demo:1"},
        session="PerClient",
        discovery={"onDisconnect": "Remove"},
        limits={"concurrency": 3, "timeout": "2s", "retries": 0, "callsPerMinute": 90},
        tools=[{"name": "a", "enabled": False, "description": "d", "probe": {"arguments": {"z": 1}}}],
    )
    assert (catalog.session, catalog.on_disconnect, catalog.trust_annotations) == ("PerClient", "Remove", True)
    limits = catalog.limits
    assert (limits.concurrency, limits.timeout_ms, limits.retries, limits.calls_per_second) == (3, 2000, 0, 1.5)
    assert limits.burst == 90
    (tool,) = catalog.tools
    assert (tool.enabled, tool.description, tool.probe_arguments) == (False, "d", {"z": 1})
    assert not build({"name": "a"})[0].trust_annotations
