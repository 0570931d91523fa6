"""Definitions of functions that OpenAI's Chat Completions and Responses reject.

Pure module; the rules and their sources are in `request_rules.openai`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fairlead_formats.request_rules.rule import BrokenRule, SchemaCheck
from fairlead_formats.request_rules.schemas import openai_schema_faults
from fairlead_formats.request_rules.table import broken


def tool_definition_faults(tool: Mapping[str, Any], check_schema: SchemaCheck) -> Iterator[BrokenRule]:
    """Rules that an element of `tools` breaks, except rules about its name."""
    return function_faults("chat", tool["function"], check_schema)


def function_definition_faults(function: Mapping[str, Any], check_schema: SchemaCheck) -> Iterator[BrokenRule]:
    """Rules that an element of `functions` breaks, except rules about its name."""
    return function_faults("chat", function, check_schema)


def function_faults(
    api: str, function: Mapping[str, Any], check_schema: SchemaCheck, index: int = 0
) -> Iterator[BrokenRule]:
    """Rules that a function breaks, except rules about its name. `api`: prefix of the rules' names; `index`: of the
    function in the request's `tools`.
    """
    if function.get("parameters") is not None:
        for rule, values in _schema_faults(function, check_schema):
            yield broken(f"{api}-{rule}", index=index, **values)


def _schema_faults(function: Mapping[str, Any], check_schema: SchemaCheck) -> Iterator[tuple[str, dict[str, object]]]:
    name, schema = str(function.get("name", "")), function["parameters"]
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind != "object":
        yield "schema-root", {"name": name, "type": kind}
        return
    why = check_schema(schema)
    if why is not None:
        yield "schema-valid", {"name": name, "why": why}
        return
    yield from openai_schema_faults(name, schema, strict=function.get("strict") is True)
