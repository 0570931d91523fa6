"""Messages about invalid arguments, with path and expected value, so that a model can correct them. No I/O.

The number and the length of messages are limited: a model has no use for the fortieth error, or for a page-long
quotation of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from jsonschema_rs import ValidationError

MAX_ERRORS: Final = 5
MAX_TEXT: Final = 200
"""Maximum number of characters of an error."""
MAX_VALUE: Final = 60
"""Maximum number of characters of a quoted value."""
MAX_DEPTH: Final = 3
"""Maximum depth of nested alternatives (`anyOf`, `oneOf`) that an error describes."""
_KINDS: Final = {
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    list: "an array",
    dict: "an object",
    type(None): "null",
}

_EXPECTED: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "enum": lambda kind: f"expected one of {_list_values(kind['options'])}",
    "const": lambda kind: f"expected {_value_text(kind['expected_value'])}",
    "minimum": lambda kind: f"expected at least {kind['limit']}",
    "maximum": lambda kind: f"expected at most {kind['limit']}",
    "exclusiveMinimum": lambda kind: f"expected more than {kind['limit']}",
    "exclusiveMaximum": lambda kind: f"expected less than {kind['limit']}",
    "multipleOf": lambda kind: f"expected a multiple of {kind['multiple_of']}",
    "minLength": lambda kind: f"expected at least {kind['limit']} characters",
    "maxLength": lambda kind: f"expected at most {kind['limit']} characters",
    "minItems": lambda kind: f"expected at least {kind['limit']} items",
    "maxItems": lambda kind: f"expected at most {kind['limit']} items",
    "minProperties": lambda kind: f"expected at least {kind['limit']} members",
    "maxProperties": lambda kind: f"expected at most {kind['limit']} members",
    "pattern": lambda kind: f"expected a string that matches {_cut(kind['pattern'], MAX_TEXT)}",
    "uniqueItems": lambda kind: "expected unique items",
    "falseSchema": lambda kind: "no value is allowed here",
}


def sentences(errors: Iterable[ValidationError]) -> list[str]:
    """Describe the first MAX_ERRORS errors, and add a sentence if there are more."""
    faults: list[str] = []
    for error in errors:
        if len(faults) == MAX_ERRORS:
            return [*faults, "there are more errors"]
        text = sentence(error)
        if text not in faults:
            faults.append(text)
    return faults


def sentence(error: ValidationError, depth: int = 0) -> str:
    """Describe an error as `path: expected value, actual value`."""
    kind = error.kind.as_dict()
    location = path(error.instance_path)
    name = error.kind.name
    if name == "required":
        return _cut(f"{_join(location, kind['property'])}: required, but missing", MAX_TEXT)
    if name in ("additionalProperties", "unevaluatedProperties"):
        return _cut(f"{location or 'top level'}: unknown member {_list_values(kind['unexpected'])}", MAX_TEXT)
    if name in ("anyOf", "oneOf") and "context" in kind and depth < MAX_DEPTH:
        return _alternatives(location, kind["context"], depth)
    return _cut(f"{location or 'top level'}: {_expectation(name, kind, error)}", MAX_TEXT)


def path(steps: Iterable[str | int]) -> str:
    """Write a path, such as `filters[0].name`; empty for the top level."""
    text = ""
    for step in steps:
        text = f"{text}[{step}]" if isinstance(step, int) else _join(text, step)
    return text


def _alternatives(location: str, context: list[list[ValidationError]], depth: int) -> str:
    """Describe a value that fits no alternative, by the errors of the alternative that it fits best."""
    branches = [branch for branch in context if branch]
    if not branches:
        return f"{location or 'top level'}: matches several alternatives, expected exactly one"
    closest = min(branches, key=lambda branch: (_fails_at_value(branch, location), len(branch)))
    details = "; ".join(sentence(error, depth + 1) for error in closest[:2])
    start = f"{location or 'top level'}: matches none of {len(context)} alternatives; for the closest, "
    return _cut(start + details, MAX_TEXT * 2)


def _fails_at_value(branch: list[ValidationError], location: str) -> int:
    """Return 1 if an alternative fails at the value itself, 0 if it fails only at nested values. An alternative with 0
    fits better."""
    return int(
        any(error.kind.name in ("type", "const", "enum") and path(error.instance_path) == location for error in branch)
    )


def _expectation(name: str, kind: dict[str, Any], error: ValidationError) -> str:
    if name == "type":
        actual_kind = _KINDS.get(type(error.instance), "another value")
        return f"expected {' or '.join(kind['types'])}, got {actual_kind}"
    describe = _EXPECTED.get(name)
    if describe is None:
        return f"does not satisfy the keyword {name}"
    return f"{describe(kind)}, got {_value_text(error.instance)}" if name != "falseSchema" else describe(kind)


def _list_values(values: list[Any]) -> str:
    texts = [_value_text(value) for value in values[:20]]
    return ", ".join([*texts, "…"] if len(values) > len(texts) else texts)


def _value_text(value: Any) -> str:
    if isinstance(value, list | dict):
        return _KINDS[type(value)]
    try:
        return _cut(msgspec.json.encode(value).decode(), MAX_VALUE)
    except (TypeError, ValueError):
        return _cut(str(value), MAX_VALUE)


def _join(location: str, name: str) -> str:
    name = _cut(name, MAX_VALUE)
    return f"{location}.{name}" if location else name


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
