"""`key=value` words of `fairlead call` to the arguments of a tool, typed by the tool's input schema. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

Json = Any
"""A value as JSON knows it; what a server's schema says of it is checked, not assumed."""
Schema = Mapping[str, Json]

_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})
_DEPTH: Final = 16


class BadArgument(ValueError):
    """A word that cannot be what the tool asks for; the message names it."""


def parse_arguments(words: Iterable[str], schema: Schema) -> dict[str, Json]:
    """Read `key=value` words; `key:=value` takes the value as JSON whatever the schema says.

    Raises BadArgument for a word without a key, a key that is given twice, and a value that is not of its type.
    """
    properties = schema.get("properties")
    arguments: dict[str, Json] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or key in {"", ":"}:
            raise BadArgument(f"{word!r} is not of the form key=value")
        literal = key.endswith(":")
        key = key.removesuffix(":")
        if key in arguments:
            raise BadArgument(f"{key} is given twice; a list is written as JSON: {key}='[1, 2]'")
        wanted = properties.get(key, {}) if isinstance(properties, Mapping) else {}
        arguments[key] = _json(key, text) if literal else typed(key, text, wanted, schema)
    return arguments


def typed(key: str, text: str, wanted: Json, root: Schema) -> Json:
    """`text` as the strictest type that `wanted` allows and that it can be read as.

    Raises BadArgument when there is none.
    """
    choices, types = _allowed(wanted, root, _DEPTH)
    for choice in choices:
        if text == (choice if isinstance(choice, str) else json.dumps(choice)):
            return choice
    if not types:
        return _loose(text)
    for name in _ORDER:
        if name in types:
            try:
                return _READERS[name](text)
            except ValueError:
                continue
    raise BadArgument(f"{key}: {text!r} is not {' or '.join(_NAMES[name] for name in _ORDER if name in types)}")


def _allowed(wanted: Json, root: Schema, depth: int) -> tuple[list[Json], set[str]]:
    """The listed values and the type names that a schema allows, through local references and alternatives."""
    if not isinstance(wanted, Mapping) or depth == 0:
        return [], set()
    choices: list[Json] = list(wanted["enum"]) if isinstance(wanted.get("enum"), list) else []
    if "const" in wanted:
        choices.append(wanted["const"])
    declared = wanted.get("type", [])
    types = {name for name in (declared if isinstance(declared, list) else [declared]) if name in _READERS}
    branches = [_resolve(wanted["$ref"], root)] if isinstance(wanted.get("$ref"), str) else []
    for word in ("anyOf", "oneOf", "allOf"):
        if isinstance(wanted.get(word), list):
            branches += wanted[word]
    for branch in branches:
        more_choices, more_types = _allowed(branch, root, depth - 1)
        choices += more_choices
        types |= more_types
    return choices, types


def _resolve(reference: str, root: Schema) -> Json:
    """The schema behind a local reference (`#/$defs/Name`); an empty one where it leads nowhere."""
    found: Json = root
    for step in reference.removeprefix("#").split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or step not in found:
            return {}
        found = found[step]
    return found


def _json(key: str, text: str) -> Json:
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadArgument(f"{key}: {text!r} is not JSON: {error}") from error


def _loose(text: str) -> Json:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _null(text: str) -> None:
    if text not in {"", "null"}:
        raise ValueError(text)


def _boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ValueError(text)


def _number(text: str) -> int | float:
    value = json.loads(text)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(text)
    return value


def _of(kind: type) -> Callable[[str], Json]:
    def read(text: str) -> Json:
        value = json.loads(text)
        if not isinstance(value, kind):
            raise ValueError(text)
        return value

    return read


_READERS: Final[dict[str, Callable[[str], Json]]] = {
    "integer": int,
    "number": _number,
    "boolean": _boolean,
    "array": _of(list),
    "object": _of(dict),
    "null": _null,
    "string": str,
}
_ORDER: Final = ("integer", "number", "boolean", "array", "object", "null", "string")
"""Stricter types first: `3` for an `integer | string` is a number, `abc` a text."""
_NAMES: Final = {
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "a JSON array",
    "object": "a JSON object",
    "null": "null",
    "string": "a text",
}
