"""Tools taken out of the envelopes of providers, with the faults of the envelope itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Tool:
    """A definition taken out of its envelope."""

    name: Any
    description: Any
    schema: Any
    strict: Any = None
    problems: tuple[str, ...] = ()


def chat(tool: dict[str, Any]) -> Tool:
    function = tool.get("function")
    problems = () if tool.get("type") == "function" and isinstance(function, dict) else ("no function tool",)
    f = function if isinstance(function, dict) else {}
    extra = tuple(f"unknown parameter {m}" for m in sorted(f.keys() - {"name", "description", "parameters", "strict"}))
    return Tool(f.get("name"), f.get("description"), f.get("parameters"), f.get("strict"), problems + extra)


def flat(members: set[str], *, kind: bool = True) -> Callable[[dict[str, Any]], Tool]:
    def read(tool: dict[str, Any]) -> Tool:
        problems = [f"unknown parameter {member}" for member in sorted(tool.keys() - members)]
        if kind and tool.get("type") != "function":
            problems.append("no function tool")
        return Tool(tool.get("name"), tool.get("description"), tool.get("parameters"), tool.get("strict"), (*problems,))

    return read


def responses(tool: dict[str, Any]) -> Tool:
    read = flat(
        {"type", "name", "description", "parameters", "strict", "defer_loading", "allowed_callers", "output_schema"}
    )(tool)
    missing = () if isinstance(tool.get("strict"), bool) else ("strict is left out: the API tries strict by itself",)
    return Tool(read.name, read.description, read.schema, read.strict, read.problems + missing)


def anthropic(tool: dict[str, Any]) -> Tool:
    members = {
        "name",
        "description",
        "input_schema",
        "strict",
        "cache_control",
        "defer_loading",
        "input_examples",
        "allowed_callers",
        "eager_input_streaming",
        "type",
    }
    problems = tuple(f"{member}: Extra inputs are not permitted" for member in sorted(tool.keys() - members))
    return Tool(tool.get("name"), tool.get("description"), tool.get("input_schema"), tool.get("strict"), problems)


def gemini(field_name: str, *, live: bool) -> Callable[[dict[str, Any]], Tool]:
    members = {
        "name",
        "description",
        "parameters",
        "parametersJsonSchema",
        "response",
        "responseJsonSchema",
        "behavior",
    }

    def read(tool: dict[str, Any]) -> Tool:
        problems = [f"Unknown name {member}" for member in sorted(tool.keys() - members)]
        if live and "parametersJsonSchema" in tool:
            problems.append("parametersJsonSchema is silently ignored")
        if "parameters" in tool and "parametersJsonSchema" in tool:
            problems.append("parameters and parametersJsonSchema exclude each other")
        return Tool(tool.get("name"), tool.get("description"), tool.get(field_name), None, (*problems,))

    return read


def bedrock(tool: dict[str, Any]) -> Tool:
    spec = tool.get("toolSpec")
    if not isinstance(spec, dict):
        return Tool(None, None, None, None, ("no toolSpec",))
    members = {"name", "description", "inputSchema", "strict"}
    problems = tuple(f"Unknown parameter {member}" for member in sorted(spec.keys() - members))
    schema = spec.get("inputSchema")
    return Tool(
        spec.get("name"),
        spec.get("description"),
        schema.get("json") if isinstance(schema, dict) else None,
        spec.get("strict"),
        problems,
    )
