"""Where each provider keeps the parts of a tool: writers and readers of one tool, and of the request around it.

Pure module. Shapes are those of the providers' own SDKs: openai `FunctionDefinition`, `FunctionToolParam` and
`RealtimeFunctionTool`; anthropic `ToolParam`; google-genai `FunctionDeclaration`; botocore `ToolConfiguration`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from fairlead_formats.schema.convert import Unusable
from fairlead_formats.schema.openapi import from_openapi
from fairlead_formats.tools.definitions import Envelope, Found, Parts, ProvidersOwn
from fairlead_formats.tools.format import GEMINI_JSON_SCHEMA, Definition, JsonObject


def _flat(tool: JsonObject, name: str) -> JsonObject:
    return {**tool, "name": name}


def _lost(tool: JsonObject, known: set[str], at: str = "") -> tuple[tuple[str, str, str], ...]:
    return tuple(
        (f"{at}/{member}", member, "a setting of the provider's, which MCP has no place for")
        for member in tool
        if member not in known
    )


def _listed(payload: Any, *members: str) -> list[Any]:
    """The list below the first member that holds one, the payload itself if it is a list, or a list of it."""
    if isinstance(payload, dict):
        for member in members:
            if isinstance(payload.get(member), list | tuple):
                return list(payload[member])
        return [payload]
    return list(payload) if isinstance(payload, list | tuple) else [payload]


def _own(tool: JsonObject) -> ProvidersOwn:
    return ProvidersOwn(f"a tool of type {str(tool.get('type'))[:40]!r} is the provider's own, not a function")


def _tools(tools: list[Definition]) -> JsonObject:
    return {"tools": tools}


# --- OpenAI


def _function(parts: Parts, *, strict: bool) -> JsonObject:
    out: JsonObject = {"name": ""}
    if parts.description:
        out["description"] = parts.description
    out["parameters"] = parts.schema
    if strict and parts.strict is not None:
        out["strict"] = parts.strict
    return out


def _write_chat(parts: Parts) -> JsonObject:
    return {"type": "function", "function": _function(parts, strict=True)}


def _name_chat(tool: JsonObject, name: str) -> JsonObject:
    return {"type": "function", "function": {**tool["function"], "name": name}}


def _read_function(function: Any, at: str = "", known: frozenset[str] = frozenset()) -> Found:
    if not isinstance(function, dict):
        raise Unusable("the tool holds no function")
    carried = {"name", "description", "parameters", "output_schema", "type", "strict", *known}
    lost = _lost(function, carried, at)
    if function.get("strict") is True:
        lost += ((f"{at}/strict", "strict", "MCP has no strict mode; the schema stays as strict mode wants it"),)
    output = function.get("output_schema")
    return Found(function.get("name"), function.get("description"), function.get("parameters"), output, lost)


def _read_chat(tool: JsonObject) -> Found:
    if tool.get("type", "function") != "function":
        raise _own(tool)
    if "function" not in tool and "parameters" in tool:
        return _read_function(tool)  # the flat form, which people mix up with this one
    found = _read_function(tool.get("function"), "/function")
    return msgspec.structs.replace(found, lost=found.lost + _lost(tool, {"type", "function"}))


def _read_flat(tool: JsonObject) -> Found:
    if "function" in tool:
        return _read_chat(tool)
    if tool.get("type", "function") != "function":
        raise _own(tool)
    return _read_function(tool)


def _write_responses(parts: Parts) -> JsonObject:
    """`strict` is always there: where it is left out, the API tries strict mode by itself."""
    out = {"type": "function", **_function(parts, strict=False), "strict": bool(parts.strict)}
    if parts.output is not None:
        out["output_schema"] = parts.output
    return out


def _write_realtime(parts: Parts) -> JsonObject:
    return {"type": "function", **_function(parts, strict=False)}


def _unpack_responses(payload: Any) -> list[Any]:
    """Tools of a `namespace` are tools, too; the namespace itself stands behind them."""
    out: list[Any] = []
    for tool in _listed(payload, "tools"):
        if isinstance(tool, dict) and tool.get("type") == "namespace" and isinstance(tool.get("tools"), list):
            out += tool["tools"]
        out.append(tool)
    return out


def _unpack_realtime(payload: Any) -> list[Any]:
    if isinstance(payload, dict) and isinstance(payload.get("session"), dict):
        payload = payload["session"]
    return _listed(payload, "tools")


CHAT: Final = Envelope(_write_chat, _name_chat, _read_chat, _tools, lambda payload: _listed(payload, "tools"))
FUNCTIONS: Final = Envelope(
    lambda parts: _function(parts, strict=False), _flat, _read_flat,
    lambda tools: {"functions": tools}, lambda payload: _listed(payload, "functions", "tools"),
)  # fmt: skip
RESPONSES: Final = Envelope(_write_responses, _flat, _read_flat, _tools, _unpack_responses, output=True)
REALTIME: Final = Envelope(
    _write_realtime, _flat, _read_flat, lambda tools: {"session": {"tools": tools}}, _unpack_realtime
)


# --- Anthropic


def _write_anthropic(parts: Parts) -> JsonObject:
    out: JsonObject = {"name": ""}
    if parts.description:
        out["description"] = parts.description
    out["input_schema"] = parts.schema
    if parts.strict:
        out["strict"] = True
    return out


def _read_anthropic(tool: JsonObject) -> Found:
    if tool.get("type") not in (None, "custom"):
        raise _own(tool)
    lost = _lost(tool, {"name", "description", "input_schema", "type"})
    return Found(tool.get("name"), tool.get("description"), tool.get("input_schema"), lost=lost)


ANTHROPIC: Final = Envelope(_write_anthropic, _flat, _read_anthropic, _tools, lambda payload: _listed(payload, "tools"))


# --- Gemini


def _write_gemini(field: str | None) -> Callable[[Parts], JsonObject]:
    def write(parts: Parts) -> JsonObject:
        out: JsonObject = {"name": ""}
        if parts.description:
            out["description"] = parts.description
        member = field or parts.options.gemini_field
        if member == GEMINI_JSON_SCHEMA or parts.schema.get("properties"):
            out[member] = parts.schema  # an object without properties is refused in `parameters`
        return out

    return write


_GEMINI_NAMES: Final = {
    "parameters_json_schema": "parametersJsonSchema",
    "response_json_schema": "responseJsonSchema",
}


def _read_gemini(tool: JsonObject) -> Found:
    if "name" not in tool and "description" not in tool:
        raise ProvidersOwn(f"{', '.join(tool)[:80]!r} is the provider's own, not a function")
    tool = {_GEMINI_NAMES.get(member, member): value for member, value in tool.items()}
    schema = tool.get("parametersJsonSchema")
    if schema is None and isinstance(tool.get("parameters"), dict):
        schema = from_openapi(tool["parameters"])
    output = tool.get("responseJsonSchema")
    if output is None and isinstance(tool.get("response"), dict):
        output = from_openapi(tool["response"])
    carried = {"name", "description", "parameters", "parametersJsonSchema", "response", "responseJsonSchema"}
    return Found(tool.get("name"), tool.get("description"), schema, output, _lost(tool, carried))


def _unpack_gemini(payload: Any) -> list[Any]:
    if isinstance(payload, dict) and isinstance(payload.get("setup"), dict):
        payload = payload["setup"]
    out: list[Any] = []
    for item in _listed(payload, "tools", "functionDeclarations", "function_declarations"):
        inner = _listed(item, "functionDeclarations", "function_declarations")
        out += inner
        others = {} if inner == [item] or not isinstance(item, dict) else _beside_functions(item)
        out += [others] if others else []
    return out


def _beside_functions(item: JsonObject) -> JsonObject:
    """The provider's tools that stand in one item with functions."""
    return {
        name: value for name, value in item.items() if name not in ("functionDeclarations", "function_declarations")
    }


def _gemini_request(tools: list[Definition]) -> JsonObject:
    return {"tools": [{"functionDeclarations": tools}] if tools else []}


GEMINI: Final = Envelope(_write_gemini(None), _flat, _read_gemini, _gemini_request, _unpack_gemini, grouped=True)
GEMINI_LIVE: Final = Envelope(
    _write_gemini("parameters"), _flat, _read_gemini,
    lambda tools: {"setup": _gemini_request(tools)}, _unpack_gemini, grouped=True,
)  # fmt: skip


# --- Bedrock


def _write_bedrock(parts: Parts) -> JsonObject:
    spec: JsonObject = {"name": "", "description": parts.description, "inputSchema": {"json": parts.schema}}
    if parts.strict:
        spec["strict"] = True
    return {"toolSpec": spec}


def _name_bedrock(tool: JsonObject, name: str) -> JsonObject:
    return {"toolSpec": {**tool["toolSpec"], "name": name}}


def _read_bedrock(tool: JsonObject) -> Found:
    spec = tool.get("toolSpec")
    if not isinstance(spec, dict):
        raise ProvidersOwn("it holds no toolSpec: it is the provider's own, not a function")
    schema = spec.get("inputSchema")
    if schema is not None and not isinstance(schema, dict):
        raise Unusable("inputSchema is no object")
    lost = _lost(spec, {"name", "description", "inputSchema"}, "/toolSpec") + _lost(tool, {"toolSpec"})
    return Found(spec.get("name"), spec.get("description"), (schema or {}).get("json"), lost=lost)


def _unpack_bedrock(payload: Any) -> list[Any]:
    if isinstance(payload, dict) and isinstance(payload.get("toolConfig"), dict):
        payload = payload["toolConfig"]
    return _listed(payload, "tools")


BEDROCK: Final = Envelope(
    _write_bedrock, _name_bedrock, _read_bedrock,
    lambda tools: {"toolConfig": {"tools": tools}} if tools else {}, _unpack_bedrock,
)  # fmt: skip
