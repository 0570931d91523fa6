"""The smallest arguments that a tool's schema takes, for a probe. Pure.

Follows the schema (JSON Schema, 2020-12 where it names no other): required members only, each by its `const`,
`enum`, `examples` or `default`, else by its type. A few sets are made and the first one that the schema takes is used:
nothing that was not checked against the whole schema is ever returned.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import jsonschema_rs

Schema = Mapping[str, Any]

DEEPEST: Final = 12
"""Levels of a schema that are followed."""
TRIES: Final = 8
"""Sets of arguments that are made before a schema is given up."""
LARGEST: Final = 1000
"""Characters of a text and items of a list; a schema that asks for more is given up."""
_TEXTS: Final = ("test", "a", "1", "A", "a1", "1.0", "2026-01-01", "https://example.com/")
_FORMATS: Final[Mapping[str, str]] = {
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "duration": "P1D",
    "email": "nobody@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "uri-reference": "/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
"""Names and addresses that are reserved for documentation."""
_MERGED: Final = ("required", "allOf")
_TYPES: Final = ("string", "integer", "number", "boolean", "object", "array", "null")


class Unsatisfied(Exception):
    """No arguments can be made; the message says why."""


def minimal_arguments(schema: Any) -> dict[str, Any]:
    """Arguments that `schema` (an `inputSchema`, decoded) takes. Raises Unsatisfied."""
    if not isinstance(schema, dict):
        raise Unsatisfied("the schema is not an object")
    try:
        validator = jsonschema_rs.validator_for(
            schema,
            offline=True,
            validate_formats=False,
            ignore_unknown_formats=True,
            pattern_options=jsonschema_rs.RegexOptions(),
        )
    except (jsonschema_rs.ValidationError, ValueError, RecursionError) as error:
        raise Unsatisfied(f"not a usable schema: {str(error).splitlines()[0][:200]}") from error
    why = "its schema is not satisfied by anything that was made for it"
    for choice in range(TRIES):
        try:
            made = _Maker(schema, choice).value({"type": "object", **schema}, DEEPEST)
            if isinstance(made, dict) and validator.is_valid(made):
                return made
        except Unsatisfied as error:
            why = str(error)
        except (ArithmeticError, TypeError, ValueError, RecursionError):
            continue  # a keyword of a shape or size that no rule here expects
    raise Unsatisfied(why)


class _Maker:
    """Makes one set of arguments: `choice` says how far down each list of possibilities it looks."""

    def __init__(self, root: Schema, choice: int) -> None:
        self._root = root
        self._choice = choice

    def value(self, schema: Any, levels: int) -> Any:
        """Something that the schema probably takes. Raises Unsatisfied."""
        if schema is False:
            raise Unsatisfied("a required member may not have any value")
        if not isinstance(schema, Mapping):
            return _TEXTS[0]
        if levels <= 0:
            raise Unsatisfied(f"its required members are nested more than {DEEPEST} deep")
        whole = self._whole(schema, levels)
        given = list(_named_values(whole))
        if self._choice < len(given):
            return given[self._choice]
        branches = whole.get("oneOf") or whole.get("anyOf")
        if isinstance(branches, list) and branches:
            rest = {name: value for name, value in whole.items() if name not in ("oneOf", "anyOf")}
            branch = branches[min(self._choice, len(branches) - 1)]
            return self.value(_merge(rest, branch) if isinstance(branch, Mapping) else rest, levels - 1)
        return given[-1] if given and "enum" in whole else self._by_type(whole, levels)

    def _whole(self, schema: Schema, levels: int) -> dict[str, Any]:
        """With what it refers to, and what it is made of, put into one."""
        whole = dict(schema)
        for _ in range(levels):
            reference, parts = whole.pop("$ref", None), whole.pop("allOf", None)
            if not isinstance(reference, str) and not isinstance(parts, list):
                return whole
            if isinstance(reference, str):
                whole = _merge(self._target_of(reference), whole)
            for part in parts if isinstance(parts, list) else ():
                whole = _merge(whole, part) if isinstance(part, Mapping) else whole
        raise Unsatisfied("its references lead in a circle")

    def _target_of(self, reference: str) -> Schema:
        if not reference.startswith("#"):
            raise Unsatisfied(f"it refers to {reference[:100]}, which is outside of it")
        target: Any = self._root
        for step in reference.removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(target, list) and name.isdigit() and int(name) < len(target):
                target = target[int(name)]
            elif isinstance(target, Mapping) and name in target:
                target = target[name]
            else:
                raise Unsatisfied(f"it refers to {reference[:100]}, which is not there")
        return target if isinstance(target, Mapping) else {}

    def _by_type(self, schema: Schema, levels: int) -> Any:
        declared = schema.get("type")
        types = (
            [declared]
            if isinstance(declared, str)
            else [each for each in declared if each in _TYPES]
            if declared
            else []
        )
        kind = types[min(self._choice, len(types) - 1)] if types else _guess_type(schema)
        match kind:
            case "string":
                return self._text(schema)
            case "integer" | "number":
                return self._number(schema, whole=kind == "integer")
            case "boolean":
                return False
            case "object":
                return self._members(schema, levels)
            case "array":
                return self._items(schema, levels)
            case "null":
                return None
        raise Unsatisfied(f"it has a type {str(kind)[:100]!r}")

    def _members(self, schema: Schema, levels: int) -> dict[str, Any]:
        properties, required = schema.get("properties"), schema.get("required")
        schemas = properties if isinstance(properties, Mapping) else {}
        others = schema.get("additionalProperties", True)
        names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        more = max(0, _count(schema.get("minProperties"), 0) - len(set(names)))
        names += [name for name in schemas if name not in names][:more]
        return {name: self.value(schemas.get(name, others), levels - 1) for name in dict.fromkeys(names)}

    def _items(self, schema: Schema, levels: int) -> list[Any]:
        least = schema.get("minItems", 0)
        count = int(least) if isinstance(least, int | float) else 0
        if count > LARGEST:
            raise Unsatisfied(f"it wants a list of {count} items")
        first = schema.get("prefixItems")
        first = first if isinstance(first, list) else []
        rest = schema.get("items", True)
        makers = [_Maker(self._root, self._choice + n * bool(schema.get("uniqueItems"))) for n in range(count)]
        return [maker.value(first[n] if n < len(first) else rest, levels - 1) for n, maker in enumerate(makers)]

    def _text(self, schema: Schema) -> str:
        format_ = schema.get("format")
        if isinstance(format_, str) and format_ in _FORMATS and self._choice == 0:
            return _FORMATS[format_]
        text = _TEXTS[self._choice % len(_TEXTS)]
        least, most = _count(schema.get("minLength"), 0), _count(schema.get("maxLength"), LARGEST)
        if least > LARGEST:
            raise Unsatisfied(f"it wants a text of {least} characters")
        return (text + "x" * (least - len(text)))[: max(most, least)]

    def _number(self, schema: Schema, *, whole: bool) -> int | float:
        low, high = _bounds(schema)
        step = schema.get("multipleOf")
        unit = step if isinstance(step, int | float) and step > 0 else 1
        if not whole and step is None and self._choice > 1 and math.isfinite(low) and math.isfinite(high):
            return (low + high) / 2
        wanted = min(max(low, 0 if self._choice == 1 else 1), high)
        number = math.ceil(wanted / unit - 1e-9) * unit
        if number > high:
            number = math.floor(high / unit + 1e-9) * unit
        if whole or float(number).is_integer():
            return int(number)
        return float(number)


def _named_values(schema: Schema) -> Iterator[Any]:
    """Values that the schema itself names, the binding ones first."""
    if "const" in schema:
        yield schema["const"]
    for keyword in ("enum", "examples"):
        if isinstance(schema.get(keyword), list):
            yield from schema[keyword][:TRIES]
    if "default" in schema:
        yield schema["default"]


def _merge(schema: Schema, other: Schema) -> dict[str, Any]:
    """Both together; where both say something that cannot be joined, the other one holds."""
    merged = {**schema, **other}
    for name in ("properties", "$defs", "definitions"):
        both = [side[name] for side in (schema, other) if isinstance(side.get(name), Mapping)]
        if len(both) > 1:
            merged[name] = {**both[0], **both[1]}
    for name in _MERGED:
        lists = [side[name] for side in (schema, other) if isinstance(side.get(name), list)]
        if len(lists) > 1:
            merged[name] = [*lists[0], *lists[1]]
    return merged


def _guess_type(schema: Schema) -> str:
    """The type of a schema that names none."""
    if "properties" in schema or "required" in schema:
        return "object"
    if "items" in schema or "prefixItems" in schema:
        return "array"
    if {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"} & schema.keys():
        return "number"
    return "string"


def _bounds(schema: Schema) -> tuple[float, float]:
    """Lowest and highest number, both of them allowed for whole numbers."""

    def number_of(name: str) -> float | None:
        value = schema.get(name)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    unit = number_of("multipleOf") or 1
    above, below = number_of("exclusiveMinimum"), number_of("exclusiveMaximum")
    if above is not None and below is not None and below - above <= unit:
        return above, below
    lows = [number_of("minimum"), None if above is None else _beyond(above, unit)]
    highs = [number_of("maximum"), None if below is None else -_beyond(-below, unit)]
    return (
        max((low for low in lows if low is not None), default=-math.inf),
        min((high for high in highs if high is not None), default=math.inf),
    )


def _beyond(bound: float, unit: float) -> float:
    """The next multiple of `unit` above a bound that is not allowed itself."""
    return (math.floor(bound / unit) + 1) * unit


def _count(value: Any, otherwise: int) -> int:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else otherwise
