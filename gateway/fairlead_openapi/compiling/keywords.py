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
"""Maximum length of an example that is kept, in bytes of JSON: examples cost tokens, and forbid nothing."""
TYPES: Final = frozenset({"null", "boolean", "object", "array", "number", "string", "integer"})
_APPLICATORS: Final = ("$ref", "allOf", "anyOf", "oneOf", "not", "if")
_ANNOTATIONS: Final[tuple[str, ...]] = ("title", "description", "default", "deprecated", "examples")


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
_CONSTRAINTS: Final = _VALUES.keys() - {*_ANNOTATIONS, "format", "readOnly", "writeOnly"}


def own_keywords(schema: Schema) -> tuple[Schema, list[str]]:
    """The keywords of a schema that contain no schemas, converted to keywords of 2020-12 (except `nullable`, see
    `with_null`). Keywords with invalid values are left out; the second result has the names of those that constrain
    values, because without them the schema accepts more.
    """
    invalid: list[str] = []
    made: Schema = {}
    for keyword, value in schema.items():
        accepts = _VALUES.get(keyword)
        if accepts is None:
            continue
        if keyword in _FORMER_FLAGS and isinstance(value, bool):
            continue
        if accepts(value):
            made[keyword] = value
        elif keyword in _CONSTRAINTS:
            invalid.append(keyword)
    _normalize(schema, made)
    _add_type(schema, made, invalid)
    _add_examples(schema, made)
    return made, invalid


def with_null(schema: Schema) -> Schema:
    """A schema that also allows null, which is what authors mean by `nullable`, even beside `$ref` and `allOf`."""
    if any(keyword in schema for keyword in _APPLICATORS):
        outer = {keyword: schema[keyword] for keyword in _ANNOTATIONS if keyword in schema}
        inner = {keyword: value for keyword, value in schema.items() if keyword not in _ANNOTATIONS}
        return {**outer, "anyOf": [inner, {"type": "null"}]}
    made = dict(schema)
    stated = made.get("type")
    if isinstance(stated, str):
        made["type"] = stated if stated == "null" else [stated, "null"]
    elif isinstance(stated, list) and "null" not in stated:
        made["type"] = [*stated, "null"]
    if "enum" in made and None not in made["enum"]:
        made["enum"] = [*made["enum"], None]
    return made


def _normalize(schema: Schema, made: Schema) -> None:
    """Convert the values of keywords to 2020-12."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if schema.get(exclusive) is True and bound in made:
            made[exclusive] = made.pop(bound)
    for keyword, value in made.items():
        if _VALUES[keyword] is is_count:
            made[keyword] = int(value)
    if "required" in made:
        made["required"] = list(dict.fromkeys(made["required"]))
    if "enum" in made:
        made["enum"] = _distinct(made["enum"])


def _add_type(schema: Schema, made: Schema, invalid: list[str]) -> None:
    stated = schema.get("type")
    if isinstance(stated, str) and stated in TYPES:
        made["type"] = stated
    elif isinstance(stated, list) and stated and all(isinstance(each, str) and each in TYPES for each in stated):
        made["type"] = stated[0] if len(stated) == 1 else list(dict.fromkeys(stated))
    elif stated is not None:
        invalid.append("type")


def _add_examples(schema: Schema, made: Schema) -> None:
    examples = made.pop("examples", [])
    if "example" in schema and not examples:
        examples = [schema["example"]]
    short = [example for example in examples if _size(example) <= MAX_EXAMPLE_BYTES]
    if short:
        made["examples"] = short


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
