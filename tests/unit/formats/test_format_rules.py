"""The rules that judge conversions are tested with payloads that providers refused. Each payload names its source, and
is reduced to the part that breaks the rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from formatrules import violations

Schema = dict[str, Any]


@dataclass(frozen=True)
class Failure:
    """One refused definition."""

    seen: str
    """Repository and number of the report, or the program that works around it and where."""
    format: str
    tool: dict[str, Any]
    says: str
    """Text that the rule's message contains."""
    model: str | None = None


def _object(**properties: Any) -> Schema:
    return {"type": "object", "properties": properties}


def _chat(schema: Any, name: str = "t", description: str = "d", **more: Any) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": schema, **more},
    }


def _strict(schema: Schema) -> dict[str, Any]:
    required = {"required": list(schema.get("properties", {}))}
    return _chat({"additionalProperties": False, **required, **schema}, strict=True)


def _anthropic(schema: Any, name: str = "t", **more: Any) -> dict[str, Any]:
    return {"name": name, "description": "d", "input_schema": schema, **more}


def _gemini(schema: Any, name: str = "t", field: str = "parameters") -> dict[str, Any]:
    return {"name": name, "description": "d", field: schema}


def _bedrock(schema: Any, name: str = "t", description: str = "d", **more: Any) -> dict[str, Any]:
    return {"toolSpec": {"name": name, "description": description, "inputSchema": {"json": schema}, **more}}


_STRING = {"type": "string"}
_A = _object(a=_STRING)

FAILURES = (
    # OpenAI
    Failure("zed-industries/zed#34015", "openai-chat", _chat({"type": "object"}), "missing properties"),
    Failure("OpenAI: names", "openai-chat", _chat(_A, name="server.tool"), "name"),
    Failure("OpenAI: names", "openai-chat", _chat(_A, name="x" * 65), "name"),
    Failure("OpenAI: array schema missing items", "openai-chat", _chat(_object(a={"type": "array"})), "missing items"),
    Failure("OpenAI: names", "openai-chat", _chat(_A, name="get /users/{id}"), "name"),
    Failure(
        "litellm flatten_top_level_schema_combinators",
        "openai-chat",
        _chat({**_A, "anyOf": [{"required": ["a"]}]}),
        "anyOf at the top level",
        "gpt-4o",
    ),
    Failure(
        "litellm flatten_top_level_schema_combinators",
        "openai-chat",
        _chat({**_A, "oneOf": [{"required": ["a"]}]}),
        "oneOf at the top level",
        "o3",
    ),
    Failure(
        "litellm flatten_top_level_schema_combinators",
        "azure-openai",
        _chat({**_A, "allOf": [{"required": ["a"]}]}),
        "allOf at the top level",
        "gpt-4.1",
    ),
    Failure("OpenAI: root not/enum", "openai-chat", _chat({**_A, "not": {"required": ["a"]}}), "not at the top level"),
    Failure(
        "litellm drop_non_python_regex_patterns",
        "openai-chat",
        _chat(_object(a={"type": "string", "pattern": r"^\p{L}+$"})),
        "not a regex",
    ),
    Failure("OpenAI: root not an object", "openai-chat", _chat({"type": "array", "items": _STRING}), "type object"),
    Failure(
        "OpenAI: type is none of JSON Schema's", "openai-chat", _chat(_object(a={"type": "any"})), "no JSON Schema"
    ),
    Failure(
        "OpenAI: draft 3 required",
        "openai-chat",
        _chat(_object(a={"type": "string", "required": True})),
        "no JSON Schema",
    ),
    Failure("string_above_max_length", "openai-chat", _chat(_A, description="x" * 1025), "longer than 1024"),
    Failure(
        "openai-python namespace_tool",
        "openai-responses",
        {"type": "function", "name": "t", "parameters": _A},
        "strict is left out",
    ),
    Failure(
        "pydantic-ai#7288",
        "openai-realtime",
        {"type": "function", "name": "t", "parameters": _A, "strict": False},
        "unknown parameter strict",
    ),
    Failure("openai-python RealtimeFunctionTool", "openai-realtime", _chat(_A), "unknown parameter function"),
    Failure("OpenAI functions of old", "openai-functions", {"type": "function", "name": "t", "parameters": _A}, "type"),
    Failure(
        "cbdb-project/cbdb-online-main-server#879",
        "openai-chat",
        _chat({"type": "object", "properties": []}),
        "missing properties",
    ),
    Failure(
        "openai/openai-agents-python#454",
        "openai-responses",
        {"type": "function", "name": "t", "parameters": {"type": "object"}, "strict": False},
        "missing properties",
    ),
    # OpenAI strict
    Failure("chatlas#255", "openai-chat", _strict(_object(a={"type": "string", "format": "uri"})), "valid format"),
    Failure(
        "openai-agents strict schema",
        "openai-chat",
        _strict({**_A, "additionalProperties": True}),
        "additionalProperties",
    ),
    Failure("OpenAI strict: required", "openai-chat", _strict({**_A, "required": []}), "must include every key"),
    Failure(
        "openai-agents strict schema",
        "openai-chat",
        _strict(_object(a={"type": "object", "additionalProperties": _STRING})),
        "additionalProperties",
    ),
    Failure(
        "pydantic-ai profiles/openai.py",
        "openai-chat",
        _strict(_object(a={"oneOf": [_STRING, {"type": "null"}]})),
        "oneOf",
    ),
    Failure("pydantic-ai#4425", "openai-chat", _strict(_object(a={"type": "array", "items": {}})), "'type' key"),
    Failure(
        "openai-agents strict schema",
        "openai-chat",
        _strict(_object(a={"type": "string", "default": "x"})),
        "default is not permitted",
    ),
    Failure(
        "openai-agents strict schema",
        "openai-chat",
        _strict({**_object(a={"$ref": "#/$defs/A", "description": "d"}), "$defs": {"A": _STRING}}),
        "$ref cannot have keywords",
    ),
    Failure(
        "openai-agents strict schema", "openai-chat", _strict(_object(a={"allOf": [_STRING]})), "allOf is not permitted"
    ),
    Failure(
        "OpenAI strict: look-around",
        "openai-chat",
        _strict(_object(a={"type": "string", "pattern": "^(?!x)"})),
        "look-around",
    ),
    Failure(
        "github/github-mcp-server#376",
        "openai-chat",
        _strict(_object(a={"type": "object", "properties": {}})),
        "additionalProperties",
    ),
    # Anthropic
    Failure("anthropics/claude-code#2326", "anthropic", _anthropic(_A, name="x" * 65), "name"),
    Failure("github/copilot-cli#1879", "anthropic", _anthropic(_A, name="a.b"), "name"),
    Failure("Anthropic: input_schema.type", "anthropic", _anthropic({"properties": {}}), "type object"),
    Failure(
        "litellm sanitize_input_schema_for_anthropic",
        "anthropic",
        _anthropic({**_A, "oneOf": [{"required": ["a"]}]}),
        "oneOf",
    ),
    Failure(
        "litellm#26692",
        "anthropic",
        _anthropic({**_object(a={"$ref": "#/definitions/A"}), "definitions": {"A": _STRING}}),
        "not be resolved",
    ),
    Failure(
        "anthropic: Schema type 'oneOf' is not supported",
        "anthropic",
        _anthropic(_object(a={"oneOf": [_STRING, {"type": "integer"}]})),
        "oneOf is not supported",
    ),
    Failure(
        "anthropic: enum and type",
        "anthropic",
        _anthropic(_object(a={"type": "string", "enum": ["a", 1]})),
        "does not match the declared type",
    ),
    Failure(
        "anthropic transform_schema",
        "anthropic",
        _anthropic({**_object(a={"type": ["string", "null"]}), "additionalProperties": False}, strict=True),
        "list of",
    ),
    Failure(
        "anthropic transform_schema",
        "anthropic",
        _anthropic({**_object(a={}), "additionalProperties": False}, strict=True),
        "'type' key",
    ),
    Failure(
        "litellm NATIVE_OUTPUT_MAX_OPTIONAL_PARAMETERS",
        "anthropic",
        _anthropic({**_object(**{f"p{i}": _STRING for i in range(25)}), "additionalProperties": False}, strict=True),
        "optional parameters",
    ),
    # Gemini
    Failure(
        "modelcontextprotocol/servers#1624",
        "gemini",
        _gemini(_object(a={"type": "number", "exclusiveMinimum": 0})),
        "Unknown name exclusiveMinimum",
    ),
    Failure(
        "router-for-me/CLIProxyAPI#97",
        "gemini",
        _gemini({**_A, "$schema": "http://json-schema.org/draft-07/schema#"}),
        "Unknown name $schema",
    ),
    Failure(
        "nanbingxyz/5ire#42",
        "gemini",
        _gemini({**_A, "additionalProperties": False}),
        "Unknown name additionalProperties",
    ),
    Failure(
        "zed-industries/zed#59938", "gemini", _gemini(_object(a={"const": "x", "type": "string"})), "Unknown name const"
    ),
    Failure(
        "litellm build_vertex_schema",
        "gemini",
        _gemini({**_object(a={"$ref": "#/$defs/A"}), "$defs": {"A": _STRING}}),
        "Unknown name $ref",
    ),
    Failure(
        "zed-industries/zed#44875", "gemini", _gemini(_object(a={"type": ["string", "null"]})), "schema type field"
    ),
    Failure("cline/cline#7339", "gemini", _gemini(_object(a={"type": "array"})), "missing items"),
    Failure(
        "litellm build_vertex_schema",
        "gemini",
        _gemini(_object(a={"type": "string", "enum": ["", "x"]})),
        "cannot be empty",
    ),
    Failure(
        "litellm#11164",
        "gemini",
        _gemini(_object(a={"anyOf": [_STRING], "description": "d"})),
        "must be the only field set",
    ),
    Failure("directus/mcp#8", "gemini", _gemini(_object(a={"type": "array", "items": {}})), "schema type field"),
    Failure(
        "litellm build_vertex_schema", "gemini", _gemini(_object(a={"type": "integer", "enum": [1, 2]})), "STRING type"
    ),
    Failure(
        "pydantic-ai profiles/google.py",
        "gemini",
        _gemini(_object(a={"type": "string", "format": "uri"})),
        "'date-time'",
    ),
    Failure("cline/cline#7339", "gemini", _gemini(_A, name="1st_tool"), "name"),
    Failure("mixelpixx/KiCAD-MCP-Server#7", "gemini", _gemini(_A, name="x" * 65), "name"),
    Failure("anomalyco/opencode#3140", "gemini", _gemini({**_A, "required": ["b"]}), "property is not defined"),
    Failure("gemini: empty object", "gemini", _gemini({"type": "object", "properties": {}}), "non-empty for OBJECT"),
    Failure(
        "python-genai#1732",
        "gemini",
        _gemini(_object(a={"type": "string", "title": "A"}), field="parametersJsonSchema"),
        "title is refused",
    ),
    Failure("livekit/agents#3135", "gemini-live", _gemini(_A, field="parametersJsonSchema"), "ignored"),
    Failure(
        "zed-industries/zed#43231",
        "gemini",
        _gemini(_object(a={"type": "object", "properties": {}, "propertyNames": {"pattern": "^a"}})),
        "propertyNames",
    ),
    Failure("n8n-io/n8n#15553", "gemini", _gemini(_object(a={"type": ["string", "number"]})), "schema type field"),
    Failure("gunpal5/Google_GenerativeAI#90", "gemini-live", _gemini(_A, field="parametersJsonSchema"), "ignored"),
    Failure("Finerestaurant/kicad-mcp-python#2", "gemini", _gemini(_A, name="place component"), "name"),
    Failure(
        "zereight/gitlab-mcp#223",
        "gemini",
        _gemini(
            _object(position=_object(line_range={"anyOf": [_object(start=_object(line=_STRING)), {"type": "null"}]})),
            field="parametersJsonSchema",
        ),
        "nesting depth",
    ),
    Failure(
        "google-gemini/gemini-cli#5923",
        "gemini",
        _gemini(_object(a=_object(b=_object(c=_object(d=_object(e=_STRING)))))),
        "nesting depth",
    ),
    # Bedrock
    Failure("litellm#5007", "bedrock-converse", _bedrock(_A, name="a/b"), "name"),
    Failure("litellm make_valid_bedrock_tool_name", "bedrock-converse", _bedrock(_A, name="_a"), "name"),
    Failure("botocore ToolSpecification", "bedrock-converse", _bedrock(_A, description=""), "description is empty"),
    Failure("litellm#31582", "bedrock-converse", _bedrock(_A, strict=True), "Claude only", "amazon.nova-pro-v1:0"),
    Failure(
        "Nova: $ref",
        "bedrock-converse",
        _bedrock({**_object(a={"$ref": "#/$defs/A"}), "$defs": {"A": _STRING}}),
        "not followed",
        "amazon.nova-lite",
    ),
    Failure("litellm BedrockToolSpec", "bedrock-converse", _bedrock({**_A, "anyOf": [{"required": ["a"]}]}), "anyOf"),
    Failure(
        "litellm drop_lookaround_regex_patterns",
        "bedrock-converse",
        _bedrock(_object(a={"type": "string", "pattern": "(?=a)"})),
        "look-around",
    ),
)


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: f"{failure.format}: {failure.seen}")
def test_payloads_that_providers_refused_are_refused_by_the_rule_set(failure: Failure) -> None:
    problems = violations(failure.format, failure.tool, failure.model)
    assert any(failure.says in sentence for sentence in problems), problems


SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "description": "x"}}, "required": ["a"]}
GOOD: dict[str, dict[str, Any]] = {
    "openai-chat": {"type": "function", "function": {"name": "t", "description": "d", "parameters": SCHEMA}},
    "azure-openai": {"type": "function", "function": {"name": "t", "description": "d", "parameters": SCHEMA}},
    "openai-functions": {"name": "t", "description": "d", "parameters": SCHEMA},
    "openai-responses": {"type": "function", "name": "t", "parameters": SCHEMA, "strict": False},
    "openai-realtime": {"type": "function", "name": "t", "description": "d", "parameters": SCHEMA},
    "anthropic": {"name": "t", "description": "d", "input_schema": SCHEMA},
    "gemini": {"name": "t", "description": "d", "parameters": SCHEMA},
    "gemini-live": {"name": "t", "description": "d", "parameters": SCHEMA},
    "bedrock-converse": {"toolSpec": {"name": "t", "description": "d", "inputSchema": {"json": SCHEMA}}},
}


@pytest.mark.parametrize("format_name", sorted(GOOD))
def test_an_ordinary_tool_breaks_no_rule(format_name: str) -> None:
    assert violations(format_name, GOOD[format_name]) == []
