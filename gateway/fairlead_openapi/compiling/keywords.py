"""Keywords of one Schema Object as JSON Schema 2020-12, without the schemas within it. No I/O.

OpenAPI 3.0 differs from 2020-12 in `nullable`, in booleans for `exclusiveMinimum` and `exclusiveMaximum`, and in
`example` (OpenAPI 3.0.4, section 4.7.24). Keywords of both versions are read in both, as documents mix them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from fairlead_formats.request_rules.draft import COUNTS, is_count
from fairlead_mcp.schemas import Schema

MAX_EXAMPLE_BYTES: Final = 256
"""Maximum length of an example that is kept, in bytes of JSON: examples cost tokens and restrict nothing."""
TYPES: Final = frozenset({"null", "boolean", "object", "array", "number", "string", "integer"})
_ANNOTATIONS: Final = frozenset(
    {
        "title",
        "description",
        "format",
        "default",
        "deprecated",
        "examples",
        "readOnly",
        "writeOnly",
        "contentEncoding",
        "contentMediaType",
    }
)
"""Keywords that restrict no value (JSON Schema 2020-12 Validation, sections 7 to 9)."""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_name_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


_VALUES: Final[dict[str, Callable[[Any], bool]]] = {
    "title": _is_text,
    "description": _is_text,
    "format": _is_text,
    "pattern": _is_text,
    "contentEncoding": _is_text,
    "contentMediaType": _is_text,
    "deprecated": _is_flag,
    "uniqueItems": _is_flag,
    "readOnly": _is_flag,
    "writeOnly": _is_flag,
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "minimum": _is_number,
    "maximum": _is_number,
    "exclusiveMinimum": _is_number,
    "exclusiveMaximum": _is_number,
    **dict.fromkeys(COUNTS, is_count),
    "enum": lambda value: isinstance(value, list) and bool(value),
    "examples": lambda value: isinstance(value, list),
    "required": _is_name_list,
    "dependentRequired": lambda value: isinstance(value, dict) and all(map(_is_name_list, value.values())),
    "const": lambda value: True,
    "default": lambda value: True,
}
"""Keywords without schemas within them, and what their values must be."""
_FORMER_FLAGS: Final = ("exclusiveMinimum", "exclusiveMaximum", "required")
"""Keywords that were booleans: the first two in OpenAPI 3.0, the last one in draft 3, on a property."""
_CONSTRAINTS: Final = _VALUES.keys() - _ANNOTATIONS


def own_keywords(schema: Schema) -> tuple[Schema, list[str]]:
    """The keywords of a schema that contain no schemas, converted to keywords of 2020-12 (except `nullable`, see
    `with_null`). Keywords with invalid values are left out; the second result has the names of those that constrain
    values, because without them the schema accepts more.
    """
    invalid: list[str] = []
    converted: Schema = {}
    for keyword, value in schema.items():
        accepts = _VALUES.get(keyword)
        if accepts is None:
            continue
        if keyword in _FORMER_FLAGS and isinstance(value, bool):
            continue
        if accepts(value):
            converted[keyword] = value
        elif keyword in _CONSTRAINTS:
            invalid.append(keyword)
    _normalize(schema, converted)
    _add_type(schema, converted, invalid)
    _add_examples(schema, converted)
    return converted, invalid


def _normalize(schema: Schema, converted: Schema) -> None:
    """Convert the values of keywords to 2020-12."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if schema.get(exclusive) is True and bound in converted:
            converted[exclusive] = converted.pop(bound)
    for keyword, value in converted.items():
        if _VALUES[keyword] is is_count:
            converted[keyword] = int(value)
    if "required" in converted:
        converted["required"] = list(dict.fromkeys(converted["required"]))
    if "enum" in converted:
        converted["enum"] = _distinct(converted["enum"])


def _add_type(schema: Schema, converted: Schema, invalid: list[str]) -> None:
    type_value = schema.get("type")
    if isinstance(type_value, str) and type_value in TYPES:
        converted["type"] = type_value
    elif (
        isinstance(type_value, list)
        and type_value
        and all(isinstance(name, str) and name in TYPES for name in type_value)
    ):
        converted["type"] = type_value[0] if len(type_value) == 1 else list(dict.fromkeys(type_value))
    elif type_value is not None:
        invalid.append("type")


def _add_examples(schema: Schema, converted: Schema) -> None:
    examples = converted.pop("examples", [])
    if "example" in schema and not examples:
        examples = [schema["example"]]
    short_examples = [example for example in examples if _size(example) <= MAX_EXAMPLE_BYTES]
    if short_examples:
        converted["examples"] = short_examples


def _size(value: Any) -> int:
    try:
        return len(msgspec.json.encode(value))
    except (msgspec.MsgspecError, UnicodeEncodeError, OverflowError, RecursionError):
        return MAX_EXAMPLE_BYTES + 1


def _distinct(values: list[Any]) -> list[Any]:
    distinct: dict[tuple[str, bytes], Any] = {}
    for value in values:
        distinct.setdefault((type(value).__name__, msgspec.json.encode(value)), value)
    return list(distinct.values())
