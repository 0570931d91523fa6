"""Parser of the `key=value` words of `fairlead call` into arguments, typed by the tool's input schema. No I/O."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from fairlead_cli.wording import with_advice
from fairlead_formats.names import suggest_name

Json = Any
"""A JSON value. The content of a server's schema is checked, not assumed."""
Schema = Mapping[str, Json]

_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})
_MAX_SUBSCHEMAS: Final = 1000
"""Maximum number of subschemas of one value that are examined."""
_ADDITIONAL_KEYWORDS: Final = ("additionalProperties", "unevaluatedProperties")
_PATTERN_CHARACTERS: Final = frozenset(".^$*+?{}[]\\|()")


class BadArgument(ValueError):
    """An argument that does not fit the tool's schema; the message names it."""


def parse_arguments(words: Iterable[str], schema: Schema) -> dict[str, Json]:
    """Parse `key=value` words into arguments; `key:=value` takes the value as JSON regardless of the schema.

    Raises BadArgument for a word without a key, a repeated key, and a value of a wrong type.
    """
    properties = schema.get("properties")
    arguments: dict[str, Json] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or key in {"", ":"}:
            raise BadArgument(f"{word!r} must have the form key=value")
        is_json = key.endswith(":")
        key = key.removesuffix(":")
        if key in arguments:
            raise BadArgument(f"{key} is given twice; a list is written as JSON: {key}='[1, 2]'")
        property_schema = properties.get(key, {}) if isinstance(properties, Mapping) else {}
        arguments[key] = _json(key, text) if is_json else parse_typed(key, text, property_schema, schema)
    return arguments


def parse_typed(key: str, text: str, schema: Json, root: Schema) -> Json:
    """`text` as the strictest type that `schema` allows and that the text can be converted to.

    Raises BadArgument if the text fits no allowed type.
    """
    choices, types = _choices_and_types(schema, root)
    for choice in choices:
        if text == (choice if isinstance(choice, str) else json.dumps(choice)):
            return choice
    if not types:
        return _json_or_text(text)
    for name in _ORDER:
        if name in types:
            try:
                return _READERS[name](text)
            except ValueError:
                continue
    raise BadArgument(f"{key}: {text!r} is not {' or '.join(_NAMES[name] for name in _ORDER if name in types)}")


def check_known(arguments: Mapping[str, Json], schema: Schema, *, strictly: bool) -> None:
    """Check that the schema has the arguments. Raises BadArgument that names each unknown argument and a similar name.

    `strictly` also rejects unknown arguments if the schema names properties without saying whether others are allowed.
    """
    subschemas = [*_subschemas(schema, schema)]
    property_names = {key for subschema in subschemas for key in _mapping(subschema.get("properties"))}
    additional_schemas = [
        subschema[word] for subschema in subschemas for word in _ADDITIONAL_KEYWORDS if word in subschema
    ]
    is_closed = any(additional_schema is False for additional_schema in additional_schemas)
    is_open = any(additional_schema is not False for additional_schema in additional_schemas)
    if not is_closed and (is_open or not strictly or not property_names):
        return
    patterns = [pattern for subschema in subschemas for pattern in _mapping(subschema.get("patternProperties"))]
    unknown_keys = [
        key for key in arguments if key not in property_names and not any(_fits(pattern, key) for pattern in patterns)
    ]
    if unknown_keys:
        advice = f"It takes {', '.join(sorted(property_names))}" if property_names else "It takes no arguments"
        raise BadArgument(with_advice("; ".join(_unknown(key, property_names) for key in unknown_keys), advice))


def _unknown(key: str, property_names: Collection[str]) -> str:
    similar_name = suggest_name(key, property_names)
    return f"it has no argument {key!r}" + ("" if similar_name is None else f" (did you mean {similar_name}?)")


def check_required(arguments: Mapping[str, Json], schema: Schema) -> None:
    """Check that the arguments which the top level of the schema requires are present; the server checks alternatives.
    Raises BadArgument that names each missing argument.
    """
    property_names = _mapping(schema.get("properties"))
    missing_keys = [key for key in _required_names(schema) if key in property_names and key not in arguments]
    if missing_keys:
        raise BadArgument(
            with_advice(f"it needs {' and '.join(missing_keys)}", f"It takes {', '.join(sorted(property_names))}")
        )


def argument_rows(schema: Schema) -> Iterator[tuple[str, str, str, str]]:
    """One row for each argument in the schema: name, type, whether it is required, description."""
    subschemas = [*_subschemas(schema, schema)]
    required = {key for subschema in subschemas for key in _required_names(subschema)}
    for subschema in subschemas:
        for key, property_schema in _mapping(subschema.get("properties")).items():
            choices, types = _choices_and_types(property_schema, schema)
            kind = (
                " | ".join(json.dumps(choice) for choice in choices)
                or " | ".join(n for n in _ORDER if n in types)
                or "any"
            )
            text = str(_mapping(property_schema).get("description", "")).strip().partition("\n")[0]
            yield key, kind, "required" if key in required else "", text


def _required_names(schema: Schema) -> list[str]:
    """The names in `required`; values that are not names are ignored."""
    names = schema.get("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _subschemas(schema: Json, root: Schema) -> Iterator[Schema]:
    """The schema and all subschemas that apply to the same value, through local references and alternatives."""
    pending, seen_ids = [schema], set[int]()
    while pending and len(seen_ids) < _MAX_SUBSCHEMAS:
        subschema = pending.pop(0)
        if not isinstance(subschema, Mapping) or id(subschema) in seen_ids:
            continue
        seen_ids.add(id(subschema))
        yield subschema
        if isinstance(subschema.get("$ref"), str):
            pending.append(_resolve(subschema["$ref"], root))
        for word in ("anyOf", "oneOf", "allOf"):
            if isinstance(subschema.get(word), list):
                pending += subschema[word][:_MAX_SUBSCHEMAS]


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def _fits(pattern: str, key: str) -> bool:
    """Whether `patternProperties` may allow a name. Only the literal beginning is compared: a server's regular
    expression could take exponential time.
    """
    start = pattern.removeprefix("^")
    literal_start = start[: next((at for at, char in enumerate(start) if char in _PATTERN_CHARACTERS), len(start))]
    return not pattern.startswith("^") or key.startswith(literal_start)


def _choices_and_types(schema: Json, root: Schema) -> tuple[list[Json], set[str]]:
    """The enumerated values and the type names that a schema allows."""
    choices: list[Json] = []
    types = set[str]()
    for subschema in _subschemas(schema, root):
        choices += subschema["enum"] if isinstance(subschema.get("enum"), list) else []
        choices += [subschema["const"]] if "const" in subschema else []
        type_names = subschema.get("type", [])
        types |= {
            name
            for name in (type_names if isinstance(type_names, list) else [type_names])
            if isinstance(name, str) and name in _READERS
        }
    return choices, types


def _resolve(reference: str, root: Schema) -> Json:
    """The schema behind a local reference (`#/$defs/Name`); an empty schema if the reference is broken."""
    target: Json = root
    for step in reference.removeprefix("#").split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(target, Mapping) or step not in target:
            return {}
        target = target[step]
    return target


def _json(key: str, text: str) -> Json:
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadArgument(f"{key}: {text!r} is not JSON: {error}") from error


def _json_or_text(text: str) -> Json:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _null(text: str) -> None:
    if text not in {"", "null"}:
        raise ValueError(text)


def _boolean(text: str) -> bool:
    word = text.lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError(text)


def _number(text: str) -> int | float:
    value = json.loads(text)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(text)
    return value


def _reader_of(kind: type) -> Callable[[str], Json]:
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
    "array": _reader_of(list),
    "object": _reader_of(dict),
    "null": _null,
    "string": str,
}
_ORDER: Final = ("integer", "number", "boolean", "array", "object", "null", "string")
"""Stricter types first: `3` for an `integer | string` is a number, `abc` a string."""
_NAMES: Final = {
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "a JSON array",
    "object": "a JSON object",
    "null": "null",
    "string": "a text",
}
