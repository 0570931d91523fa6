"""Definitions of functions that OpenAI's Chat Completions and Responses reject.

Pure module; the rules and their sources are in `request_rules`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from fairlead_formats.providers.openai_chat.request_rules import CHAT_RULES
from fairlead_formats.request_rules.rule import ApiRules, BrokenRule, SchemaCheck
from fairlead_formats.request_rules.schemas import Schema, subschemas

_STRICT_KEYWORDS: Final = frozenset(
    {
        "allOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "dependentRequired",
        "dependentSchemas",
        "patternProperties",
        "propertyNames",
        "prefixItems",
        "uniqueItems",
        "contains",
        "minContains",
        "maxContains",
        "minProperties",
        "maxProperties",
        "unevaluatedProperties",
        "unevaluatedItems",
        "default",
    }
)
"""Keywords that strict schemas do not have."""
_MAX_PATTERN_LENGTH: Final = 2_000
"""Maximum length of a pattern that is compiled, in characters: a pattern of a megabyte takes half a minute."""
_PATTERNS: Final = frozenset({"pattern", "patternProperties"})
_TYPE_KEYWORDS: Final = frozenset({"type", "anyOf", "$ref", "enum", "const"})


def tool_definition_faults(tool: Mapping[str, Any], check_schema: SchemaCheck) -> Iterator[BrokenRule]:
    """Rules that an element of `tools` breaks, except rules about its name."""
    return function_faults(CHAT_RULES, tool["function"], check_schema)


def function_definition_faults(function: Mapping[str, Any], check_schema: SchemaCheck) -> Iterator[BrokenRule]:
    """Rules that an element of `functions` breaks, except rules about its name."""
    return function_faults(CHAT_RULES, function, check_schema)


def function_faults(
    api: ApiRules, function: Mapping[str, Any], check_schema: SchemaCheck, index: int = 0
) -> Iterator[BrokenRule]:
    """Rules that a function breaks, except rules about its name. `api`: rules of the API; `index`: of the
    function in the request's `tools`.
    """
    if function.get("parameters") is not None:
        for rule, values in _schema_faults(function, check_schema):
            yield api.broken_rule(f"{api.prefix}-{rule}", index=index, **values)


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
    yield from _openai_faults(name, schema, strict=function.get("strict") is True)


def _types_of(schema: Schema) -> list[Any]:
    """Types that a schema names."""
    kind = schema.get("type")
    return kind if isinstance(kind, list) else [] if kind is None else [kind]


def _openai_faults(name: str, schema: Schema, *, strict: bool) -> Iterator[tuple[str, dict[str, object]]]:
    """Rules of OpenAI that a valid JSON Schema breaks: the end of the rule's name, and the values of its templates."""
    if not isinstance(schema.get("properties"), dict):
        yield "schema-properties", {"name": name, "context": ()}
    for path, part in subschemas(schema):
        position: dict[str, object] = {"name": name, "context": path}
        if "items" not in part and "array" in _types_of(part):
            yield "schema-items", position
        if not _PATTERNS.isdisjoint(part):
            for pattern in (part.get("pattern"), *_names(part.get("patternProperties"))):
                if not _compiles(pattern):
                    yield "schema-pattern", {**position, "pattern": pattern}
        if strict:
            yield from _strict_faults(position, part)


def _strict_faults(position: dict[str, object], schema: Schema) -> Iterator[tuple[str, dict[str, object]]]:
    if schema.get("additionalProperties") is not False and "object" in _types_of(schema):
        yield "strict-closed", position
    if "properties" in schema:
        for missing_name in sorted(set(schema["properties"]) - set(schema.get("required", ()))):
            yield "strict-required", {**position, "missing": missing_name}
    if not _STRICT_KEYWORDS.isdisjoint(schema):
        for keyword in sorted(schema.keys() & _STRICT_KEYWORDS):
            yield "strict-keyword", {**position, "keyword": keyword}
    if _TYPE_KEYWORDS.isdisjoint(schema):
        yield "strict-type", position


def _names(mapping: object) -> Iterable[object]:
    return mapping if isinstance(mapping, dict) else ()


def _compiles(pattern: object) -> bool:
    if not isinstance(pattern, str) or len(pattern) > _MAX_PATTERN_LENGTH:
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings of character sets whose meaning may change
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return True
