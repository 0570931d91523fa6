"""Form fields for a tool's input schema, and conversion of the submitted texts to arguments. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

MAX_FIELDS: Final = 40
"""Maximum number of separate fields; a tool with more arguments gets one field for the whole object."""
MAX_CHOICES: Final = 100
PREFIX: Final = "argument."
WHOLE_OBJECT: Final = "arguments"
_INPUT_TYPES: Final = {"string": "text", "integer": "number", "number": "number"}


class FormField(msgspec.Struct, frozen=True):
    """Form field of one argument."""

    name: str
    kind: str
    """`text`, `number`, `choice`, `yes-no`, or `json` for other types."""
    required: bool
    hint: str = ""
    choices: tuple[str, ...] = ()
    """Values of a `choice`, as JSON."""
    example: str = ""
    """Initial value of the field."""


class UnreadableArgument(ValueError):
    """A submitted text is not valid for its argument. The message is a sentence for the visitor."""


def fields_of(schema: Any) -> tuple[FormField, ...] | None:
    """Make the fields for a schema's properties, required properties first; None if one field for the whole object is
    needed.
    """
    properties = schema.get("properties", {}) if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or len(properties) > MAX_FIELDS:
        return None
    required = schema.get("required", [])
    names = required if isinstance(required, list) else []
    fields = [_field(str(name), each, required=name in names) for name, each in properties.items()]
    return tuple(sorted(fields, key=lambda field: not field.required))


def arguments_of(fields: tuple[FormField, ...] | None, texts: Mapping[str, str]) -> dict[str, Any]:
    """Convert submitted texts to arguments, without empty optional arguments. Raises UnreadableArgument."""
    if fields is None:
        arguments_object = _json(WHOLE_OBJECT, texts.get(WHOLE_OBJECT, "") or "{}")
        if not isinstance(arguments_object, dict):
            raise UnreadableArgument("the arguments must be one JSON object")
        return arguments_object
    arguments = {}
    for field in fields:
        text = texts.get(PREFIX + field.name, "")
        if text or (field.required and field.kind == "text"):
            arguments[field.name] = _value(field, text)
    return arguments


def _field(name: str, schema: Any, *, required: bool) -> FormField:
    schema = schema if isinstance(schema, dict) else {}
    hint = schema.get("description")
    hint = hint if isinstance(hint, str) else ""
    default = schema.get("default")
    choices = schema.get("enum")
    kind = schema.get("type")
    if isinstance(choices, list) and 0 < len(choices) <= MAX_CHOICES:
        return FormField(name, "choice", required, hint, tuple(map(json.dumps, choices)))
    if kind == "boolean":
        return FormField(name, "yes-no", required, hint)
    if isinstance(kind, str) and kind in _INPUT_TYPES:
        return FormField(name, _INPUT_TYPES[kind], required, hint, example="" if default is None else str(default))
    return FormField(name, "json", required, hint, example="" if default is None else json.dumps(default))


def _value(field: FormField, text: str) -> Any:
    if field.kind == "text":
        return text
    if field.kind == "number":
        value = _json(field.name, text)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UnreadableArgument(f"{field.name} must be a number")
        return value
    return _json(field.name, text)


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableArgument(f"{name} is not valid JSON: {error}") from error
