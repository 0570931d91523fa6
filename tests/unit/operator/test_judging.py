"""Which definitions are offered and which are left out, and the messages about those."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from fairlead_api.documents.catalog import definition_hash
from fairlead_api.v1alpha1.causes import Cause
from fairlead_mcp.server_listing import RawListing
from fairlead_operator.discovery.catalog_build import CallAccess, build_catalog
from fairlead_operator.discovery.findings import ListingFindings
from fairlead_operator.discovery.offerable import DEFINITION_LIMIT, _name_fault
from operatorfakes import RUNS, mcp_server, tool_named

GOOD = tool_named("good")
SCHEMA = {"type": "object"}


def judge(
    *tools: dict[str, Any] | bytes, version: str = "2026-07-28", **more: Any
) -> tuple[list[str], ListingFindings]:
    """Names of the offered tools, if a server lists a valid tool and these tools; and the findings."""
    raws = tuple(Raw(t if isinstance(t, bytes) else msgspec.json.encode(t)) for t in (GOOD, *tools))
    assert RUNS.endpoint is not None
    listing = RawListing(version, tools=raws, **more)
    catalog, remarks = build_catalog(mcp_server(), listing, CallAccess(RUNS.endpoint, None, "demo"))
    return [tool.name for tool in catalog.tools], remarks


def tool_with(properties: dict[str, Any]) -> dict[str, Any]:
    return {"name": "bad", "inputSchema": {**SCHEMA, "properties": properties}}


LEFT_OUT: dict[str, tuple[dict[str, Any] | bytes, str, str]] = {
    "the name of another": (tool_named("good"), "DuplicateNames", "tool 'good' (listed more than once"),
    "no name": ({"inputSchema": SCHEMA}, "InvalidDefinitions", "tool 'no. 2'"),
    "an empty name": (tool_named(""), "InvalidNames", "tool 'no. 2' (empty)"),
    "a number for a name": (b'{"name":7,"inputSchema":{"type":"object"}}', "InvalidDefinitions", "name: the value is"),
    "a line break": (tool_named("a\nb"), "InvalidNames", r"tool 'a\nb' (contains control characters)"),
    "an escape of terminals": (tool_named("\x1b[2Ja"), "InvalidNames", r"'\x1b[2Ja'"),
    "text turned around": (tool_named("good\u202e"), "InvalidNames", r"'good\u202e'"),
    "an invisible space": (tool_named("good\u200b"), "InvalidNames", r"'good\u200b'"),
    "text turned around by an isolate": (tool_named("good\u2067"), "InvalidNames", r"'good\u2067'"),
    "an invisible tag": (tool_named("good\U000e0041"), "InvalidNames", r"'good\U000e0041'"),
    "an invisible hyphen": (tool_named("go\u00adod"), "InvalidNames", r"'go\xadod'"),
    "a filler": (tool_named("good\u3164"), "InvalidNames", "contains the invisible character U+3164"),
    "a joiner of graphemes": (tool_named("go\u034fod"), "InvalidNames", "contains the invisible character U+034F"),
    "a selector of nothing": (tool_named("good\ufe0f"), "InvalidNames", "variation selectors without effect (U+FE0F)"),
    "a selector of ideographs": (tool_named("good\U000e0100"), "InvalidNames", "(U+E0100)"),
    "a code point reserved for formats": (tool_named("good\U000e0fff"), "InvalidNames", "(U+E0FFF)"),
    "a name too long": (tool_named("n" * 257), "InvalidNames", "257 characters; the maximum is 256"),
    "no schema": ({"name": "bad"}, "InvalidSchemas", "tool 'bad' (no inputSchema)"),
    "an empty schema": ({"name": "bad", "inputSchema": {}}, "InvalidSchemas", '"type": "object"'),
    "a schema of a list": ({"name": "bad", "inputSchema": {"type": "array"}}, "InvalidSchemas", '"type": "object"'),
    "a schema that is true": ({"name": "bad", "inputSchema": True}, "InvalidSchemas", 'not of type "object"'),
    "a schema that is null": ({"name": "bad", "inputSchema": None}, "InvalidSchemas", "no inputSchema"),
    "a header for an unknown argument": (
        tool_with({"tags": {"type": "array", "items": {"type": "string", "x-mcp-header": "Tag"}}}),
        "InvalidSchemas",
        "x-mcp-header is at a schema that is not an argument",
    ),
    "a list for a description": ({**tool_named("bad"), "description": ["x"]}, "InvalidDefinitions", "description: "),
    "text for annotations": ({**tool_named("bad"), "annotations": "x"}, "InvalidDefinitions", "annotations: "),
    "text for an outputSchema": ({**tool_named("bad"), "outputSchema": "x"}, "InvalidDefinitions", "outputSchema: "),
    "text for _meta": ({**tool_named("bad"), "_meta": "x"}, "InvalidDefinitions", "_meta: "),
    "a name in another case": (
        {**tool_named("bad"), "Name": "good"},
        "InvalidDefinitions",
        'has "Name", which some parsers read as "name"',
    ),
    "a description in another case": (
        {**tool_named("bad"), "De\u017fcription": "x"},
        "InvalidDefinitions",
        'some parsers read as "description"',
    ),
    "a name twice": (
        b'{"name":"good2","name":"bad","inputSchema":{"type":"object"}}',
        "InvalidDefinitions",
        "an object has a member twice",
    ),
    "a name twice beside a number that is too large to be read": (
        b'{"name":"x","name":"bad","inputSchema":{"type":"object","x":1' + b"0" * 6000 + b"}}",
        "InvalidDefinitions",
        "an object has a member twice",
    ),
    "an argument twice": (
        b'{"name":"bad","inputSchema":{"type":"object","properties":{"a":{},"\\u0061":{}}}}',
        "InvalidDefinitions",
        "an object has a member twice",
    ),
    "no object": (b"7", "InvalidDefinitions", "tool 'no. 2'"),
    "bytes that are not UTF-8": (
        b'{"name":"bad","inputSchema":{"type":"object"},"x":"\xff"}',
        "InvalidDefinitions",
        "'bad' ('utf-8' codec",
    ),
    "a large description": ({**tool_named("bad"), "description": "d" * 2**20}, "DefinitionsTooLarge", "262144"),
    "a large schema": (
        {"name": "bad", "inputSchema": {**SCHEMA, "x": "s" * (5 << 20)}},
        "DefinitionsTooLarge",
        "tool 'bad' (52429",
    ),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_a_definition_that_would_harm_its_list_is_left_out_with_a_reason_of_its_own(case: str) -> None:
    bad, reason, words = LEFT_OUT[case]
    offered, remarks = judge(bad)
    verdict = remarks.verdict()
    assert offered == ["good"]
    assert (verdict.ok, verdict.cause, remarks.tools_left_out) == (True, reason, 1)
    assert verdict.message.startswith("the server answered tools/list; 1 of 2 definitions are left out: ")
    assert words in verdict.message
    assert len(remarks.lines) == 1
    assert remarks.lines[0].startswith(f"{reason}: tool ")
    assert all(line.isprintable() for line in remarks.lines)


@pytest.mark.parametrize("name", ["with spaces", "a/b", "n" * 200, "größe", "名前", "a,b"])
def test_a_name_that_the_protocol_only_advises_against_is_offered_and_mentioned(name: str) -> None:
    offered, remarks = judge(tool_named(name))
    assert offered == sorted(["good", name])
    assert (remarks.verdict().cause, remarks.tools_left_out) == (Cause.UNUSUAL_NAMES, 0)
    assert "1 names violate MCP's naming rule and are offered unchanged: tool '" in remarks.verdict().message


@pytest.mark.parametrize(
    ("members", "change"),
    [
        ({"description": None}, "description: null is left out"),
        ({"inputSchema": {"type": "object", "properties": []}}, "inputSchema.properties: [] is written as {}"),
        (
            {"outputSchema": {"type": "array"}},
            "outputSchema: left out for older clients, as the schema is not of type object",
        ),
    ],
)
def test_a_definition_that_is_mended_for_clients_is_kept_as_the_server_wrote_it_and_told(
    members: dict[str, Any], change: str
) -> None:
    raw = Raw(msgspec.json.encode({**tool_named("odd"), **members}))
    assert RUNS.endpoint is not None
    catalog, remarks = build_catalog(
        mcp_server(), RawListing("x", tools=(raw,)), CallAccess(RUNS.endpoint, None, "demo")
    )
    assert catalog.tools[0].definition == raw
    assert catalog.tools[0].hash == definition_hash(raw)
    verdict = remarks.verdict()
    assert (verdict.cause, remarks.tools_left_out) == (Cause.MENDED_DEFINITIONS, 0)
    assert verdict.message.endswith(f"; 1 of 1 definitions are mended for clients: tool 'odd' ({change})")


def test_a_definition_that_only_newer_clients_take_is_offered_to_them_and_told() -> None:
    offered, remarks = judge({"name": "odd", "inputSchema": {"type": "object", "required": "a"}})
    assert offered == ["good", "odd"]
    assert remarks.verdict().cause == Cause.INVALID_SCHEMAS
    assert "1 of 2 definitions are left out for older clients: tool 'odd' (" in remarks.verdict().message


def test_the_first_of_two_definitions_of_one_name_is_offered() -> None:
    first, second = ({**tool_named("twice"), "description": text} for text in ("one", "two"))
    raws = tuple(Raw(msgspec.json.encode(tool)) for tool in (first, second))
    assert RUNS.endpoint is not None
    catalog, _ = build_catalog(mcp_server(), RawListing("x", tools=raws), CallAccess(RUNS.endpoint, None, "demo"))
    assert [msgspec.json.decode(tool.definition)["description"] for tool in catalog.tools] == ["one"]


def test_a_definition_of_the_largest_size_is_offered() -> None:
    bare = len(msgspec.json.encode({**tool_named("large"), "description": ""}))
    offered, remarks = judge({**tool_named("large"), "description": "d" * (DEFINITION_LIMIT - bare)})
    assert offered == ["good", "large"]
    assert remarks.verdict().cause == Cause.VERIFIED


def test_two_thousand_tools_are_offered_without_a_word() -> None:
    offered, remarks = judge(*(tool_named(f"tool-{number}") for number in range(2000)))
    assert len(offered) == 2001
    assert remarks == ListingFindings(listed=2001)


def test_faults_of_a_listing_are_all_named_however_many_there_are_of_each() -> None:
    _, remarks = judge({"name": "bare"}, *[tool_named("same")] * 40, tool_named("x y"))
    verdict = remarks.verdict()
    assert verdict.cause == Cause.VERIFIED_IN_PART
    assert "40 of 43 definitions are left out: tool 'bare' (no inputSchema), tool 'same'" in verdict.message
    assert "and 34 more" in verdict.message
    assert "tool 'x y'" in verdict.message
    assert len(remarks.lines) == 21
    assert remarks.lines[-1] == "and 21 more findings"


@pytest.mark.parametrize(
    ("listing", "bad"),
    [
        ("prompts", {"description": "no name"}),
        ("prompts", {"name": "p", "arguments": {"a": 1}}),
        ("resources", {"name": "n"}),
        ("resources", {"uri": "file:///x"}),
        ("resource_templates", {"name": "n", "uriTemplate": 7}),
    ],
)
def test_prompts_and_resources_of_another_shape_are_left_out_like_tools(listing: str, bad: dict[str, Any]) -> None:
    more: dict[str, Any] = {listing: (Raw(msgspec.json.encode(bad)),)}
    offered, remarks = judge(**more)
    assert (offered, remarks.tools_left_out) == (["good"], 0)
    assert remarks.verdict().cause == Cause.INVALID_DEFINITIONS


def test_a_listing_beside_the_tools_that_failed_is_told() -> None:
    _, remarks = judge(notes=("prompts/list failed: nope",))
    assert remarks.verdict().cause == Cause.LISTING_INCOMPLETE
    assert remarks.verdict().message == "the server answered tools/list; prompts/list failed: nope"


def test_header_annotations_do_not_concern_a_server_without_headers() -> None:
    odd = tool_with({"tag": {"type": "array", "x-mcp-header": "Tag"}})
    assert judge(odd)[0] == ["good"]
    assert judge(odd, version="2025-11-25")[0] == ["bad", "good"]


def test_answers_in_another_form_than_that_of_mcp_are_told_and_cost_no_tool() -> None:
    sentence = "the server's capabilities are [], not an object: they count as absent"
    offered, remarks = judge(remarks=(sentence,))
    assert (offered, remarks.tools_left_out) == (["good"], 0)
    assert (remarks.verdict().ok, remarks.verdict().cause) == (True, Cause.MENDED_ANSWERS)
    assert remarks.verdict().message == f"the server answered tools/list; {sentence}"
    assert remarks.lines == (f"MendedAnswers: {sentence}",)


_UNSEEN = [
    chr(code)
    for first, last in (
        (0x7F, 0xA0),
        (0x34F, 0x350),
        (0x200B, 0x2010),
        (0x2028, 0x202F),
        (0x2060, 0x2070),
        (0xFE00, 0xFE10),
    )
    for code in range(first, last)
] + [chr(code) for code in range(0xE0000, 0xE0080)]


def test_no_name_with_a_character_that_is_not_seen_is_offered() -> None:
    assert len(_UNSEEN) > 100
    offered = [
        name for character in _UNSEEN for name in (f"go{character}od", f"good{character}") if not _name_fault(name, 256)
    ]
    assert offered == []
    assert [_name_fault(name, 256) for name in ("get_rain", "wetter-für-öl", "天気", "сколько", "❤️")] == [""] * 5
