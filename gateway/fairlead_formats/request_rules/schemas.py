"""Subschemas of a tool's schema, with their paths as errors name them. Pure module."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, Final

from fairlead_mcp.schemas import KEYWORDS, parts

Schema = dict[str, Any]
SchemaPath = tuple[str, ...]

STRICT_KEYWORDS: Final = frozenset(
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
"""Keywords that OpenAI's strict schemas do not have."""
_LONGEST_PATTERN: Final = 2_000
"""Maximum length of a pattern that is compiled, in characters: a pattern of a megabyte takes half a minute."""
_PATTERNS: Final = frozenset({"pattern", "patternProperties"})
_TYPED: Final = frozenset({"type", "anyOf", "$ref", "enum", "const"})


def subschemas(root: Schema) -> Iterator[tuple[SchemaPath, Schema]]:
    """All schemas in a schema, itself first, each with its path."""
    todo: list[tuple[SchemaPath, Schema]] = [((), root)]
    for path, schema in todo:
        yield path, schema
        if not KEYWORDS.isdisjoint(schema):
            todo += [((*path, *way), part) for way, part in parts(schema)]


def types_of(schema: Schema) -> list[Any]:
    """Types that a schema names."""
    kind = schema.get("type")
    return kind if isinstance(kind, list) else [] if kind is None else [kind]


def openai_schema_faults(name: str, schema: Schema, *, strict: bool) -> Iterator[tuple[str, dict[str, object]]]:
    """Rules of OpenAI that a valid JSON Schema breaks: the end of the rule's name, and the values of its templates."""
    if not isinstance(schema.get("properties"), dict):
        yield "schema-properties", {"name": name, "context": ()}
    for path, part in subschemas(schema):
        at: dict[str, object] = {"name": name, "context": path}
        if "items" not in part and "array" in types_of(part):
            yield "schema-items", at
        if not _PATTERNS.isdisjoint(part):
            for pattern in (part.get("pattern"), *_names(part.get("patternProperties"))):
                if not _compiles(pattern):
                    yield "schema-pattern", {**at, "pattern": pattern}
        if strict:
            yield from _strict_faults(at, part)


def _strict_faults(at: dict[str, object], schema: Schema) -> Iterator[tuple[str, dict[str, object]]]:
    if schema.get("additionalProperties") is not False and "object" in types_of(schema):
        yield "strict-closed", at
    if "properties" in schema:
        for missing in sorted(set(schema["properties"]) - set(schema.get("required", ()))):
            yield "strict-required", {**at, "missing": missing}
    if not STRICT_KEYWORDS.isdisjoint(schema):
        for keyword in sorted(schema.keys() & STRICT_KEYWORDS):
            yield "strict-keyword", {**at, "keyword": keyword}
    if _TYPED.isdisjoint(schema):
        yield "strict-type", at


def _names(mapping: object) -> Iterable[object]:
    return mapping if isinstance(mapping, dict) else ()


def _compiles(pattern: object) -> bool:
    if not isinstance(pattern, str) or len(pattern) > _LONGEST_PATTERN:
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings of character sets whose meaning may change
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return True
