"""Checks of keyword values, and a fast check for schemas that need no conversion.

Pure module, which runs first in a conversion. Providers compile schemas before they read the request, and refuse the
whole request for `"type": "any"` or `"required": true`, both of which public servers send.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from fairlead_formats.schema.budget import MAX_DEPTH
from fairlead_mcp.schemas import LISTS, MAPS, SINGLES, escape_step

TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_ANCHOR: Final = re.compile(r"[A-Za-z_][-A-Za-z0-9._]*\Z")
_IDENTIFIER: Final = re.compile(r"[^#]*#?\Z")


def _is_name_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value) and len(set(value)) == len(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_boolean(value: Any) -> bool:
    return isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict | bool)


def _is_schema_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(schema, dict | bool) for schema in value)


def _is_schema_map(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(schema, dict | bool) for schema in value.values())


def _is_anchor(value: Any) -> bool:
    return isinstance(value, str) and _ANCHOR.match(value) is not None


def _is_dependency_map(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_name_list(part) or _is_schema(part) for part in value.values())


def _is_type(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and _is_name_list(value) and TYPES.issuperset(value)
    return isinstance(value, str) and value in TYPES


SHAPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "type": _is_type,
    "required": _is_name_list,
    "enum": lambda value: isinstance(value, list) and bool(value),
    # up to draft 2019-09, `items` may be a list with one schema per position
    "items": lambda value: _is_schema(value) or isinstance(value, list),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "$defs": lambda value: isinstance(value, dict),
    "definitions": lambda value: isinstance(value, dict),
    "$vocabulary": lambda value: isinstance(value, dict) and all(isinstance(part, bool) for part in value.values()),
    "$id": lambda value: isinstance(value, str) and _IDENTIFIER.match(value) is not None,
    "examples": lambda value: isinstance(value, list),
    "contentSchema": _is_schema,
    "additionalItems": _is_schema,
    "dependentRequired": lambda value: isinstance(value, dict) and all(_is_name_list(v) for v in value.values()),
    "dependencies": _is_dependency_map,
    **dict.fromkeys(("$anchor", "$dynamicAnchor", "$recursiveAnchor"), _is_anchor),
    **dict.fromkeys(("uniqueItems", "nullable", "deprecated", "readOnly", "writeOnly"), _is_boolean),
    **dict.fromkeys(("description", "title", "pattern", "format", "contentEncoding", "contentMediaType"), _is_text),
    **dict.fromkeys(("$ref", "$dynamicRef", "$recursiveRef", "$schema", "$comment"), _is_text),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _is_count),
    **dict.fromkeys(("minContains", "maxContains"), _is_count),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(SINGLES - {"items"}, _is_schema),
    **dict.fromkeys(LISTS, _is_schema_list),
    **dict.fromkeys(MAPS, _is_schema_map),
}


def replace_schemas(keyword: str, value: Any, replace: Callable[[Any, str], Any]) -> Any:
    """The value of a keyword with `replace(schema, pointer)` in place of each schema in it; other values unchanged."""
    if keyword in MAPS:
        return {name: replace(part, f"/{keyword}/{escape_step(name)}") for name, part in value.items()}
    if keyword in LISTS:
        return [replace(part, f"/{keyword}/{index}") for index, part in enumerate(value)]
    if keyword == "dependencies":  # up to draft 7, its values may also be lists of names
        return {
            name: part if isinstance(part, list) else replace(part, f"/{keyword}/{escape_step(name)}")
            for name, part in value.items()
        }
    return replace(value, f"/{keyword}") if keyword in SINGLES else value


_PLAIN_KEYWORDS: Final = frozenset({"type", "description"})
_PLAIN_OBJECT: Final = frozenset({"type", "description", "properties", "required"})
_PLAIN_ROOT: Final = frozenset({"type", "properties", "required"})
_PLAIN_ARRAY: Final = frozenset({"type", "description", "items"})
_ABSENT: Final = ()
"""Stands for an absent keyword, because None would mean the value null."""
_SCALARS: Final = ("string", "integer", "number", "boolean")  # not a set: the looked-up value may be unhashable


def is_plain(schema: Mapping[str, Any], max_level: int = MAX_DEPTH) -> bool:
    """Whether every non-strict target accepts the schema of a tool's arguments unchanged. `max_level`: maximum level of
    objects and arrays; the root is level 1.

    Never recurses deeper than `max_level`.
    """
    return schema.keys() <= _PLAIN_ROOT and "properties" in schema and _is_plain_object(schema, 1, max_level)


def _is_plain_object(schema: Mapping[str, Any], depth: int, max_level: int) -> bool:
    properties = schema.get("properties")
    if schema.get("type") != "object" or properties.__class__ is not dict or depth > max_level:
        return False
    required = schema.get("required", _ABSENT)
    if required is not _ABSENT and (
        required.__class__ is not list or not _are_distinct_properties(required, properties)
    ):
        return False
    for part in properties.values():
        if part.__class__ is not dict:
            return False
        if part.keys() <= _PLAIN_KEYWORDS:
            if part.get("type") not in _SCALARS:
                return False
        elif not _is_plain_part(part, depth + 1, max_level):
            return False
        if part.get("description", "").__class__ is not str:
            return False
    return True


def _are_distinct_properties(required: list[Any], properties: dict[str, Any]) -> bool:
    try:
        return properties.keys() >= set(required) and len(required) == len(set(required))
    except TypeError:
        return False


def _is_plain_part(part: dict[str, Any], depth: int, max_level: int) -> bool:
    kind = part.get("type")
    if kind == "object":
        return (
            bool(part.get("properties")) and part.keys() <= _PLAIN_OBJECT and _is_plain_object(part, depth, max_level)
        )
    if kind != "array" or not part.keys() <= _PLAIN_ARRAY or depth > max_level:
        return False
    items = part.get("items")
    if items.__class__ is not dict or items.get("description", "").__class__ is not str:
        return False
    if items.keys() <= _PLAIN_KEYWORDS:
        return items.get("type") in _SCALARS
    return _is_plain_part(items, depth + 1, max_level)
