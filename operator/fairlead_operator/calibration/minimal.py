"""Generates the smallest arguments that satisfy a tool's schema, for a probe. Pure.

Only required members are generated. The value of a member comes from its `const`, `enum`, `examples` or `default`, or
else follows from its type. Several candidates are generated; the first one that is valid for the whole schema (JSON
Schema, 2020-12 by default) is returned.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import jsonschema_rs

Schema = Mapping[str, Any]

MAX_DEPTH: Final = 12
"""Maximum depth of nested schemas that are followed."""
MAX_CANDIDATES: Final = 8
"""Maximum number of candidates per schema."""
MAX_LENGTH: Final = 1000
"""Maximum length of strings and arrays; for a schema that requires longer ones, no arguments are generated."""
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
"""Value by format. Names and addresses are from the ranges reserved for documentation."""
_CONCATENATED_KEYWORDS: Final = ("required", "allOf")
_TYPES: Final = ("string", "integer", "number", "boolean", "object", "array", "null")


class Unsatisfied(Exception):
    """Failure to generate arguments. The message says why."""


def minimal_arguments(schema: Any) -> dict[str, Any]:
    """Arguments that are valid for `schema`, a decoded `inputSchema`. Raises Unsatisfied."""
    if not isinstance(schema, dict):
        raise Unsatisfied("the input schema is not a JSON object")
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
    reason = "no generated arguments satisfy its schema"
    for choice in range(MAX_CANDIDATES):
        try:
            candidate = _Generator(schema, choice).value({"type": "object", **schema}, MAX_DEPTH)
            if isinstance(candidate, dict) and validator.is_valid(candidate):
                return candidate
        except Unsatisfied as error:
            reason = str(error)
        except (ArithmeticError, TypeError, ValueError, RecursionError):
            continue  # a keyword has a value of an unexpected shape or size
    raise Unsatisfied(reason)


class _Generator:
    """Generates one candidate. `choice` is its number, which selects among the alternatives of each schema."""

    def __init__(self, root: Schema, choice: int) -> None:
        self._root = root
        self._choice = choice

    def value(self, schema: Any, levels: int) -> Any:
        """A value that the schema probably accepts. Follows at most `levels` nested schemas. Raises Unsatisfied."""
        if schema is False:
            raise Unsatisfied("a required member allows no value")
        if not isinstance(schema, Mapping):
            return _TEXTS[0]
        if levels <= 0:
            raise Unsatisfied(f"the required members are nested more than {MAX_DEPTH} deep")
        resolved_schema = self._resolve(schema, levels)
        named_values = list(_named_values(resolved_schema))
        if self._choice < len(named_values):
            return named_values[self._choice]
        branches = resolved_schema.get("oneOf") or resolved_schema.get("anyOf")
        if isinstance(branches, list) and branches:
            base_schema = {name: value for name, value in resolved_schema.items() if name not in ("oneOf", "anyOf")}
            branch = branches[min(self._choice, len(branches) - 1)]
            return self.value(_merge(base_schema, branch) if isinstance(branch, Mapping) else base_schema, levels - 1)
        return (
            named_values[-1] if named_values and "enum" in resolved_schema else self._by_type(resolved_schema, levels)
        )

    def _resolve(self, schema: Schema, levels: int) -> dict[str, Any]:
        """The schema merged with its `$ref` target and its `allOf` parts. Raises Unsatisfied for circular
        references.
        """
        resolved_schema = dict(schema)
        for _ in range(levels):
            reference, parts = resolved_schema.pop("$ref", None), resolved_schema.pop("allOf", None)
            if not isinstance(reference, str) and not isinstance(parts, list):
                return resolved_schema
            if isinstance(reference, str):
                resolved_schema = _merge(self._target_of(reference), resolved_schema)
            for part in parts if isinstance(parts, list) else ():
                resolved_schema = _merge(resolved_schema, part) if isinstance(part, Mapping) else resolved_schema
        raise Unsatisfied("the references of the schema are circular")

    def _target_of(self, reference: str) -> Schema:
        if not reference.startswith("#"):
            raise Unsatisfied(f"the reference {reference[:100]} leads out of the schema")
        target: Any = self._root
        for step in reference.removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(target, list) and name.isdigit() and int(name) < len(target):
                target = target[int(name)]
            elif isinstance(target, Mapping) and name in target:
                target = target[name]
            else:
                raise Unsatisfied(f"the reference {reference[:100]} has no target")
        return target if isinstance(target, Mapping) else {}

    def _by_type(self, schema: Schema, levels: int) -> Any:
        type_keyword = schema.get("type")
        types = (
            [type_keyword] if isinstance(type_keyword, str) else [name for name in type_keyword or () if name in _TYPES]
        )
        kind = types[min(self._choice, len(types) - 1)] if types else _guess_type(schema)
        match kind:
            case "string":
                return self._text(schema)
            case "integer" | "number":
                return self._number(schema, integral=kind == "integer")
            case "boolean":
                return False
            case "object":
                return self._members(schema, levels)
            case "array":
                return self._items(schema, levels)
            case "null":
                return None
        raise Unsatisfied(f"the schema has the unknown type {str(kind)[:100]!r}")

    def _members(self, schema: Schema, levels: int) -> dict[str, Any]:
        properties, required = schema.get("properties"), schema.get("required")
        schemas = properties if isinstance(properties, Mapping) else {}
        other_schema = schema.get("additionalProperties", True)
        names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        optional_count = max(0, _count(schema.get("minProperties"), 0) - len(set(names)))
        names += [name for name in schemas if name not in names][:optional_count]
        return {name: self.value(schemas.get(name, other_schema), levels - 1) for name in dict.fromkeys(names)}

    def _items(self, schema: Schema, levels: int) -> list[Any]:
        min_items = schema.get("minItems", 0)
        count = int(min_items) if isinstance(min_items, int | float) else 0
        if count > MAX_LENGTH:
            raise Unsatisfied(f"the schema requires an array of {count} items")
        prefix = schema.get("prefixItems")
        prefix = prefix if isinstance(prefix, list) else []
        rest_schema = schema.get("items", True)
        choice_step = 1 if schema.get("uniqueItems") else 0  # another choice generates another value
        generators = [_Generator(self._root, self._choice + n * choice_step) for n in range(count)]
        return [
            generator.value(prefix[n] if n < len(prefix) else rest_schema, levels - 1)
            for n, generator in enumerate(generators)
        ]

    def _text(self, schema: Schema) -> str:
        format_ = schema.get("format")
        if isinstance(format_, str) and format_ in _FORMATS and self._choice == 0:
            return _FORMATS[format_]
        text = _TEXTS[self._choice % len(_TEXTS)]
        min_length, max_length = _count(schema.get("minLength"), 0), _count(schema.get("maxLength"), MAX_LENGTH)
        if min_length > MAX_LENGTH:
            raise Unsatisfied(
                f"the schema requires a string of {min_length} characters; a probe sends at most {MAX_LENGTH}"
            )
        return (text + "x" * (min_length - len(text)))[: max(max_length, min_length)]

    def _number(self, schema: Schema, *, integral: bool) -> int | float:
        low, high = _bounds(schema)
        step = schema.get("multipleOf")
        unit = step if isinstance(step, int | float) and step > 0 else 1
        if not integral and step is None and self._choice > 1 and math.isfinite(low) and math.isfinite(high):
            return (low + high) / 2
        target = min(max(low, 0 if self._choice == 1 else 1), high)
        number = math.ceil(target / unit - 1e-9) * unit
        if number > high:
            number = math.floor(high / unit + 1e-9) * unit
        if integral or float(number).is_integer():
            return int(number)
        return float(number)


def _named_values(schema: Schema) -> Iterator[Any]:
    """Values that the schema states in `const`, `enum`, `examples` or `default`."""
    if "const" in schema:
        yield schema["const"]
    for keyword in ("enum", "examples"):
        if isinstance(schema.get(keyword), list):
            yield from schema[keyword][:MAX_CANDIDATES]
    if "default" in schema:
        yield schema["default"]


def _merge(schema: Schema, other_schema: Schema) -> dict[str, Any]:
    """Merge two schemas; for keywords that cannot be combined, `other_schema` wins."""
    merged_schema = {**schema, **other_schema}
    for name in ("properties", "$defs", "definitions"):
        values = [side[name] for side in (schema, other_schema) if isinstance(side.get(name), Mapping)]
        if len(values) > 1:
            merged_schema[name] = {**values[0], **values[1]}
    for name in _CONCATENATED_KEYWORDS:
        lists = [side[name] for side in (schema, other_schema) if isinstance(side.get(name), list)]
        if len(lists) > 1:
            merged_schema[name] = [*lists[0], *lists[1]]
    return merged_schema


def _guess_type(schema: Schema) -> str:
    """The likely type of a schema without `type`."""
    if "properties" in schema or "required" in schema:
        return "object"
    if "items" in schema or "prefixItems" in schema:
        return "array"
    if {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"} & schema.keys():
        return "number"
    return "string"


def _bounds(schema: Schema) -> tuple[float, float]:
    """Lowest and highest number. For integers, both are inclusive."""

    def number_of(name: str) -> float | None:
        value = schema.get(name)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    unit = number_of("multipleOf") or 1
    exclusive_minimum, exclusive_maximum = number_of("exclusiveMinimum"), number_of("exclusiveMaximum")
    if (
        exclusive_minimum is not None
        and exclusive_maximum is not None
        and exclusive_maximum - exclusive_minimum <= unit
    ):
        return exclusive_minimum, exclusive_maximum
    lows = [number_of("minimum"), None if exclusive_minimum is None else _next_multiple(exclusive_minimum, unit)]
    highs = [number_of("maximum"), None if exclusive_maximum is None else -_next_multiple(-exclusive_maximum, unit)]
    return (
        max((low for low in lows if low is not None), default=-math.inf),
        min((high for high in highs if high is not None), default=math.inf),
    )


def _next_multiple(bound: float, unit: float) -> float:
    """The next multiple of `unit` above an exclusive bound."""
    return (math.floor(bound / unit) + 1) * unit


def _count(value: Any, otherwise: int) -> int:
    """The value of a keyword as an integer; `otherwise` if it is not a number."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else otherwise
