"""JSON Schema keywords by the providers' treatment of them, and all locations in a schema where they may occur. Data of
`formatrules`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]

COMBINATORS = {"anyOf", "oneOf", "allOf"}
TYPES = {"string", "number", "integer", "boolean", "object", "array", "null"}
STRICT_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
SINGLES = (
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
GEMINI_SCHEMA = {
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "properties",
    "required",
    "items",
    "anyOf",
    "default",
    "example",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "pattern",
    "propertyOrdering",
}
"""Members of the `Schema` message of the Gemini API; any other is "Unknown name" for the whole request."""
NO_STRICT_OPENAI = {
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
    "title",
    "$schema",
    "discriminator",
}
NO_STRICT_CLAUDE = {
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
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "maxItems",
    "minProperties",
    "maxProperties",
    "default",
    "$schema",
    "examples",
}
ANTHROPIC_ROOT = {"type", "properties", "additionalProperties", "required", "$defs"}


@dataclass(frozen=True)
class Place:
    """One subschema and its location."""

    path: str
    schema: Any
    depth: int
    parent: str = ""
    """Keyword that contains the subschema."""


def places(schema: Any, path: str = "", depth: int = 0, parent: str = "") -> Iterator[Place]:
    """Every subschema, the root first."""
    yield Place(path, schema, depth, parent)
    if not isinstance(schema, dict):
        return
    for keyword in MAPS:
        for name, part in (schema.get(keyword) or {}).items() if isinstance(schema.get(keyword), dict) else ():
            yield from places(part, f"{path}/{keyword}/{name}", depth + 1, keyword)
    for keyword in LISTS:
        for i, part in enumerate(schema[keyword] if isinstance(schema.get(keyword), list) else ()):
            yield from places(part, f"{path}/{keyword}/{i}", depth + 1, keyword)
    for keyword in SINGLES:
        if isinstance(schema.get(keyword), dict):
            yield from places(schema[keyword], f"{path}/{keyword}", depth + 1, keyword)
