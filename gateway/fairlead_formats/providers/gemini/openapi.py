"""Conversion of `parameters` of Gemini's function declarations, OpenAPI schemas, to JSON Schema.

Pure module. The Schema object of OpenAPI 3.0 differs from JSON Schema in three ways: types may be in capitals, null is
expressed by `nullable`, and counts may be strings, because they are 64-bit integers of protobuf.
"""

from __future__ import annotations

from typing import Any, Final

from fairlead_formats.schema.budget import ConversionBudget
from fairlead_formats.schema.nulls import with_null
from fairlead_mcp.schemas import LISTS, SINGLES

JsonObject = dict[str, Any]

_COUNTS: Final = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_KEYWORDS_BY_SNAKE_CASE: Final = {
    "any_of": "anyOf",
    "min_length": "minLength",
    "max_length": "maxLength",
    "min_items": "minItems",
    "max_items": "maxItems",
    "min_properties": "minProperties",
    "max_properties": "maxProperties",
}


def from_openapi(schema: JsonObject) -> JsonObject:
    """The schema in JSON Schema 2020-12. Raises TooMuch for a schema with too many or too deeply nested parts."""
    converted: JsonObject = _convert(schema, ConversionBudget(), 0)
    return converted


def _convert(schema: Any, budget: ConversionBudget, depth: int) -> Any:
    budget.charge_node(depth)
    if not isinstance(schema, dict):
        return schema
    json_schema: JsonObject = {}
    for spelling, value in schema.items():
        keyword = _KEYWORDS_BY_SNAKE_CASE.get(str(spelling)) or spelling
        if keyword == "type" and isinstance(value, str):
            json_schema["type"] = value.lower()
        elif keyword == "properties" and isinstance(value, dict):
            json_schema["properties"] = {name: _convert(part, budget, depth + 1) for name, part in value.items()}
        elif keyword in LISTS and isinstance(value, list):
            json_schema[keyword] = [_convert(part, budget, depth + 1) for part in value]
        elif keyword in SINGLES:
            json_schema[keyword] = _convert(value, budget, depth + 1)
        elif keyword in _COUNTS and isinstance(value, str) and value.isdigit() and len(value) < 20:
            json_schema[keyword] = int(value)
        elif keyword not in {"nullable", "propertyOrdering", "property_ordering"}:
            json_schema[keyword] = value
    return with_null(json_schema) if schema.get("nullable") is True else json_schema
