"""Repair of malformed JSON Schemas from generators in other languages. No I/O.

Examples: PHP writes an empty map as `[]`, Lua writes an empty list as `{}`, and Go writes a nil value as `null`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final, TypeAlias

import jsonschema_rs

from fairlead_mcp.schemas import DEFINITIONS, LISTS, MAPS, SINGLES, Schema

SchemaPath: TypeAlias = tuple[str | int, ...]

_MAPS: Final = MAPS | DEFINITIONS
_ARRAYS: Final = frozenset({"required", "enum", "examples"})
_OTHER_KEYWORDS: Final = frozenset(
    {
        "type",
        "title",
        "description",
        "format",
        "pattern",
        "$schema",
        "$id",
        "$ref",
        "$anchor",
        "$comment",
        "$dynamicRef",
        "$dynamicAnchor",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minContains",
        "maxContains",
        "minProperties",
        "maxProperties",
        "readOnly",
        "writeOnly",
        "deprecated",
        "dependentRequired",
        "contentEncoding",
        "contentMediaType",
        "nullable",
    }
)
_NEVER_NULL: Final = _MAPS | LISTS | SINGLES | _ARRAYS | _OTHER_KEYWORDS
"""Keywords that cannot be null: a null counts as absent. In contrast, null is a valid value of `const` and
`default`.
"""
_META_SCHEMAS: Final = {
    "draft-04": "http://json-schema.org/draft-04/schema#",
    "draft-06": "http://json-schema.org/draft-06/schema#",
    "draft-07": "http://json-schema.org/draft-07/schema#",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
}
TUPLES: Final = "draft-07"
"""Draft that older clients apply. In it, `items` may be a list of schemas, one per position."""
LATEST: Final = "2020-12"
"""Draft of schemas without `$schema` (MCP 2025-11-25, SEP-1613)."""


def is_schema(schema: Schema, draft: str | None = None) -> bool:
    """Whether a schema is valid by `draft`, by default by the draft that it names."""
    return _meta_validator(draft or draft_of(schema)).is_valid(schema)


def draft_of(schema: Schema) -> str:
    """Return the draft of JSON Schema that a schema names, such as "draft-07"; LATEST if it names no known draft."""
    draft_url = schema.get("$schema")
    if isinstance(draft_url, str):
        for draft in _META_SCHEMAS:
            if draft in draft_url:
                return draft
    return LATEST


def mend_schema(root: Schema) -> Iterator[tuple[SchemaPath, str]]:
    """Repair a schema in place, at any depth, and yield the path and description of each change."""
    pending: list[tuple[SchemaPath, Schema]] = [((), root)]
    while pending:
        path, schema = pending.pop()
        for keyword, value in list(schema.items()):
            change = _mend_keyword(schema, keyword, value)
            if change:
                yield (*path, keyword), change
        for holder, schemas in _schema_holders(schema):
            for key, value in list(schemas.items() if isinstance(schemas, dict) else enumerate(schemas)):
                if value is None or value == []:
                    schemas[key] = {}
                    yield (*path, holder, key), f"{'null' if value is None else '[]'} is written as {{}}"
                elif isinstance(value, dict):
                    pending.append(((*path, holder, key), value))
        pending += (((*path, keyword), schema[keyword]) for keyword in SINGLES if isinstance(schema.get(keyword), dict))


def _mend_keyword(schema: Schema, keyword: str, value: Any) -> str:
    """Repair the value of one keyword. Returns a description of the change; empty if the value needed no change."""
    if value is None and keyword in _NEVER_NULL:
        del schema[keyword]
        return "null is left out"
    if value == [] and isinstance(value, list) and (keyword in _MAPS or keyword in SINGLES):
        schema[keyword] = {}
        return "[] is written as {}"
    if value == {} and isinstance(value, dict) and keyword in _ARRAYS:
        schema[keyword] = []
        return "{} is written as []"
    if value in ({}, []) and isinstance(value, dict | list) and keyword in LISTS:
        del schema[keyword]  # JSON Schema requires at least one schema in `anyOf`
        return "an empty list of schemas is left out"
    return ""


def _schema_holders(schema: Schema) -> Iterator[tuple[str, Any]]:
    """Yield the keywords of a schema that contain maps or lists of schemas."""
    for keyword, value in schema.items():
        is_map = keyword in _MAPS and isinstance(value, dict)
        if is_map or (isinstance(value, list) and (keyword in LISTS or keyword == "items")):
            yield keyword, value


@cache
def _meta_validator(draft: str) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for({"$schema": _META_SCHEMAS[draft], "$ref": _META_SCHEMAS[draft]}, offline=True)
