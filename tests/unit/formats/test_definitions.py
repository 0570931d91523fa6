"""Definitions converted from MCP to every provider and back: golden files, and properties of every conversion."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from fairlead_formats import registry
from fairlead_formats.registry import FORMATS, UnknownFormat, find
from fairlead_formats.tool_format import Action, ConvertedTools, Options
from formatrules import violations

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "formats"
PROVIDERS = sorted(name for name in FORMATS if name != registry.MCP)
CHOICES = {
    **{name: (name, Options()) for name in PROVIDERS},
    "openai-chat-strict": ("openai-chat", Options(strict=True)),
    "openai-chat-gpt-5": ("openai-chat", Options(model="gpt-5.1")),
    "anthropic-strict": ("anthropic", Options(strict=True)),
    "gemini-parameters": ("gemini", Options(gemini_field="parameters")),
    "bedrock-converse-claude-strict": ("bedrock-converse", Options(strict=True, model="anthropic.claude-sonnet-5")),
}
"""Format and options by golden file."""

SEARCH: dict[str, Any] = {
    "name": "repo.search",
    "title": "Search",
    "description": "Search a repository.",
    "inputSchema": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "title": "Query"},
            "limit": {"type": "integer", "exclusiveMinimum": 0, "maximum": 100, "default": 10},
            "sort": {"enum": ["stars", "updated", None]},
            "labels": {"type": "array", "items": {"$ref": "#/definitions/Label"}, "uniqueItems": True},
            "since": {
                "anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}],
                "description": "From when",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
        "definitions": {"Label": {"type": "string", "pattern": "^[a-z]+$"}},
    },
    "annotations": {"readOnlyHint": True},
}
TREE: dict[str, Any] = {
    "name": "save_tree",
    "description": "Save a tree.",
    "inputSchema": {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/Node"}},
        "required": ["root"],
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {
                    "value": {"const": "x"},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
                },
                "required": ["value"],
            }
        },
    },
}
EITHER: dict[str, Any] = {
    "name": "find_user",
    "inputSchema": {
        "oneOf": [
            {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
            {"type": "object", "properties": {"email": {"type": "string", "format": "email"}}, "required": ["email"]},
        ]
    },
}
PLAIN: dict[str, Any] = {
    "name": "read_file",
    "description": "Read a file.",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
NOTHING: dict[str, Any] = {"name": "now", "description": "The time.", "inputSchema": {"type": "object"}}
TOOLS = [SEARCH, TREE, EITHER, PLAIN, NOTHING]


def golden_text(format_name: str, converted: ConvertedTools) -> str:
    """A conversion in the form of the golden files: the request, the names and the report."""
    report = [f"{loss.tool} {loss.path} {loss.keyword}: {loss.action}: {loss.why}" for loss in converted.report]
    document = {
        "request": find(format_name).request(converted.tools),
        "names": {name: safe for name, safe in sorted(converted.names.forward.items()) if name != safe},
        "report": report,
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("choice", sorted(CHOICES))
def test_the_translation_is_the_golden_one(choice: str) -> None:
    """`UPDATE_GOLDEN=1 pytest` on this module writes the files again; read the difference afterwards."""
    format_name, options = CHOICES[choice]
    text = golden_text(format_name, find(format_name).convert(TOOLS, options))
    path = GOLDEN / f"{choice}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("choice", sorted(CHOICES))
def test_a_golden_translation_breaks_no_rule_of_the_provider(choice: str) -> None:
    format_name, options = CHOICES[choice]
    converted = find(format_name).convert(TOOLS, options)
    assert len(converted.tools) == len(TOOLS)
    assert [violations(format_name, tool, options.model) for tool in converted.tools] == [[]] * len(TOOLS)


@pytest.mark.parametrize("format_name", sorted(FORMATS))
def test_a_plain_tool_comes_back_equal_without_a_loss(format_name: str) -> None:
    format_ = find(format_name)
    converted = format_.convert([PLAIN])
    assert converted.report == ()
    for payload in (format_.request(converted.tools), list(converted.tools), converted.tools[0]):
        assert format_.read(payload).tools == (PLAIN,)


@pytest.mark.parametrize("source", PROVIDERS)
@pytest.mark.parametrize("target", PROVIDERS)
def test_a_tool_goes_from_provider_to_provider_through_mcp(source: str, target: str) -> None:
    here = find(source).convert([PLAIN])
    there = find(target).convert(find(source).read(find(source).request(here.tools)).tools)
    assert there.tools == find(target).convert([PLAIN]).tools


@pytest.mark.parametrize("format_name", PROVIDERS)
def test_a_bad_tool_never_fails_the_rest(format_name: str) -> None:
    bad: list[dict[str, Any]] = [
        {"name": "array", "inputSchema": {"type": "array"}},
        {"name": "text", "inputSchema": "x"},
        {"name": ""},
    ]
    converted = find(format_name).convert([*bad, PLAIN])
    assert [converted.names.original_name(name) for name in converted.names.originals] == ["read_file"]
    assert [loss.action for loss in converted.report] == [Action.REFUSED] * 3


def test_of_two_tools_of_one_name_the_first_counts() -> None:
    converted = find("anthropic").convert([PLAIN, {**PLAIN, "description": "Another."}])
    assert [tool["description"] for tool in converted.tools] == ["Read a file."]
    assert converted.report[-1].action is Action.REFUSED


def test_strict_is_set_only_where_it_was_requested_and_loses_nothing() -> None:
    converted = find("openai").convert([PLAIN, {**PLAIN, "name": "open", "inputSchema": OPEN}], Options(strict=True))
    assert [tool["function"]["strict"] for tool in converted.tools] == [True, False]
    assert converted.report_of("open")[0].keyword == "additionalProperties"
    assert "strict" not in find("openai").convert([PLAIN]).tools[0]["function"]


OPEN = {"type": "object", "properties": {"env": {"type": "object", "additionalProperties": {"type": "string"}}}}


def test_responses_always_says_whether_it_is_strict() -> None:
    assert find("responses").convert([PLAIN]).tools[0]["strict"] is False


def test_responses_carries_the_schema_of_results_and_others_report_it() -> None:
    tool = {**PLAIN, "outputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}
    converted = find("openai-responses").convert([tool])
    assert find("openai-responses").read(converted.tools[0]).tools == (tool,)
    assert [loss.path for loss in find("anthropic").convert([tool]).report] == ["/outputSchema"]


def test_a_root_union_stays_for_gpt_5_and_is_described_to_older_models() -> None:
    tool = {"name": "t", "description": "d", "inputSchema": {"type": "object", **EITHER["inputSchema"]}}
    assert "oneOf" in find("openai").convert([tool], Options(model="gpt-5")).tools[0]["function"]["parameters"]
    older = find("openai").convert([tool], Options(model="gpt-4o")).tools[0]["function"]
    assert sorted(older["parameters"]["properties"]) == ["email", "id"]
    assert older["description"] == "d. Give exactly one of these sets of arguments: id or email."


def test_a_long_description_is_cut_for_openai_and_its_notes_are_kept() -> None:
    tool = {**EITHER, "description": "A sentence. " * 200}
    converted = find("openai").convert([tool])
    text = converted.tools[0]["function"]["description"]
    assert len(text) <= 1024
    assert text.endswith("Give exactly one of these sets of arguments: id or email.")
    assert ("description", Action.DROPPED) in [(loss.keyword, loss.action) for loss in converted.report]
    assert "only its end, as the provider refuses" in " ".join(loss.why for loss in converted.report)


def test_a_provider_s_own_tool_is_refused_by_the_reader_and_the_others_are_read() -> None:
    read = find("openai-responses").read([{"type": "web_search"}, {"type": "function", "name": "t"}])
    assert [tool["name"] for tool in read.tools] == ["t"]
    assert read.report[0].action is Action.REFUSED


def test_members_that_mcp_has_no_place_for_are_reported_when_read() -> None:
    read = find("anthropic").read([{"name": "t", "input_schema": OPEN, "cache_control": {"type": "ephemeral"}}])
    assert [(loss.path, loss.action) for loss in read.report] == [("/cache_control", Action.DROPPED)]


def test_capitals_and_nullable_of_gemini_are_read() -> None:
    parameters = {"type": "OBJECT", "properties": {"a": {"type": "STRING", "nullable": True, "minLength": "1"}}}
    read = find("gemini").read({"functionDeclarations": [{"name": "t", "parameters": parameters}]})
    assert read.tools[0]["inputSchema"]["properties"]["a"] == {"type": ["string", "null"], "minLength": 1}


def test_nullable_of_gemini_adds_null_beside_alternatives_and_only_once_to_an_enum() -> None:
    kinds = {"type": "STRING", "nullable": True, "anyOf": [{"type": "STRING"}]}
    values = {"type": "STRING", "nullable": True, "enum": ["a", None]}
    parameters = {"type": "OBJECT", "properties": {"kinds": kinds, "values": values}}
    read = find("gemini").read({"functionDeclarations": [{"name": "t", "parameters": parameters}]})
    properties = read.tools[0]["inputSchema"]["properties"]
    assert jsonschema_rs.is_valid(properties["kinds"], None)
    assert properties["values"]["enum"] == ["a", None]


@pytest.mark.parametrize("name", ["OpenAI", "ANTHROPIC", "Gemini", "bedrock", "azure_openai", " OpenAI Responses "])
def test_a_format_is_found_in_any_case_and_by_its_aliases(name: str) -> None:
    assert find(name).name in FORMATS


def test_no_alias_means_two_formats() -> None:
    every = [alias for format_ in FORMATS.values() for alias in (format_.name, *format_.aliases)]
    assert len(every) == len(set(every))


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(UnknownFormat, match=r"'cohere' is not a format; use one of: anthropic, bedrock-conv"):
        find("cohere")
