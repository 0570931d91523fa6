"""A form from a tool's input schema, and arguments from what was typed into it. Pure module."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

MAX_FIELDS: Final = 40
"""Arguments with a field of their own; a tool with more gets one for the whole object."""
MAX_CHOICES: Final = 100
PREFIX: Final = "argument."
WHOLE: Final = "arguments"
_PLAIN: Final = {"string": "text", "integer": "number", "number": "number"}


class FormField(msgspec.Struct, frozen=True):
    """One argument."""

    name: str
    kind: str
    """`text`, `number`, `choice`, `yes-no`, or `json` for all that has no field of its own."""
    required: bool
    hint: str = ""
    choices: tuple[str, ...] = ()
    """Values as JSON."""
    example: str = ""
    """First value of the field."""


class UnreadableArgument(ValueError):
    """A field that is not what its argument asks for; the message is a sentence."""


def fields_of(schema: Any) -> tuple[FormField, ...] | None:
    """Fields of an object's properties, required ones first; None where one field for the whole object is better."""
    properties = schema.get("properties", {}) if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or len(properties) > MAX_FIELDS:
        return None
    required = schema.get("required", [])
    names = required if isinstance(required, list) else []
    fields = [_field(str(name), each, required=name in names) for name, each in properties.items()]
    return tuple(sorted(fields, key=lambda field: not field.required))


def arguments_of(fields: tuple[FormField, ...] | None, typed: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of a call; empty fields of optional ones are left out. Raises UnreadableArgument."""
    if fields is None:
        whole = _json(WHOLE, typed.get(WHOLE, "") or "{}")
        if not isinstance(whole, dict):
            raise UnreadableArgument("the arguments are one JSON object")
        return whole
    arguments = {}
    for field in fields:
        text = typed.get(PREFIX + field.name, "")
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
    if isinstance(kind, str) and kind in _PLAIN:
        return FormField(name, _PLAIN[kind], required, hint, example="" if default is None else str(default))
    return FormField(name, "json", required, hint, example="" if default is None else json.dumps(default))


def _value(field: FormField, text: str) -> Any:
    if field.kind == "text":
        return text
    if field.kind == "number":
        value = _json(field.name, text)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UnreadableArgument(f"{field.name} is a number")
        return value
    return _json(field.name, text)


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableArgument(f"{name} is not JSON: {error}") from error
