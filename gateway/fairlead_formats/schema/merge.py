"""Schemas put together: what satisfies both (`allOf`), and what satisfies either (unions of arguments).

Pure module, for original, unconverted schemas whose `$ref`s are resolved. An intersection is exact
or it is not made: `Unmergeable` says why.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any, Final

from fairlead_formats.schema.budget import MAX_BRANCHES, ConversionBudget

JsonObject = dict[str, Any]

NOTHING: Final[JsonObject] = {"not": {}}
"""The schema that nothing satisfies."""
ANNOTATIONS: Final = frozenset(
    {
        "title",
        "description",
        "default",
        "examples",
        "example",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$comment",
        "$schema",
        "$id",
        "$anchor",
        "$defs",
        "definitions",
        "discriminator",
    }
)
"""Keywords that no instance fails by."""


class Unmergeable(ValueError):
    """Two schemas that no single one without `allOf` stands for."""


def intersect(first: Any, second: Any, bounds: ConversionBudget, depth: int = 0) -> Any:
    """A schema for what satisfies both. Of annotations the first's count. Raises Unmergeable, TooMuch."""
    bounds.node(depth)
    if first is True or first == {} or first == second:
        return second
    if second is True or second == {}:
        return first
    if not isinstance(first, dict) or not isinstance(second, dict):
        return NOTHING
    merged = dict(first)
    for keyword, value in second.items():
        if keyword in _OBJECT:
            continue
        if keyword not in merged:
            merged[keyword] = value
        elif merged[keyword] != value and keyword not in ANNOTATIONS:
            merged[keyword] = _both(keyword, merged[keyword], value, merged, bounds, depth)
    _objects(merged, first, second, bounds, depth)
    if isinstance(merged.get("type"), list) and not merged["type"]:
        return NOTHING
    return merged


_OBJECT: Final = frozenset({"properties", "patternProperties", "additionalProperties"})


def _objects(merged: JsonObject, first: JsonObject, second: JsonObject, bounds: ConversionBudget, depth: int) -> None:
    """The three keywords that only mean something together: each side speaks of the other's properties, too."""
    if not (_OBJECT & second.keys()):
        return
    sides = (first, second)
    if any("patternProperties" in side for side in sides) and _OBJECT & first.keys():
        raise Unmergeable("two sets of properties by pattern")
    for keyword in _OBJECT & second.keys():
        merged.setdefault(keyword, second[keyword])
    names = dict.fromkeys(name for side in sides for name in _properties(side))
    if names:
        merged["properties"] = {
            name: intersect(_property(first, name), _property(second, name), bounds, depth + 1) for name in names
        }
    rest = intersect(
        first.get("additionalProperties", True), second.get("additionalProperties", True), bounds, depth + 1
    )
    if rest is not True:
        merged["additionalProperties"] = False if rest == NOTHING else rest


def _properties(schema: JsonObject) -> JsonObject:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _property(schema: JsonObject, name: str) -> Any:
    properties = _properties(schema)
    return properties[name] if name in properties else schema.get("additionalProperties", True)


def _both(keyword: str, a: Any, b: Any, merged: JsonObject, bounds: ConversionBudget, depth: int) -> Any:
    if keyword in _COMBINE:
        try:
            return _COMBINE[keyword](a, b)
        except TypeError as error:
            raise Unmergeable(f"two values of {keyword} that cannot be compared") from error
    if keyword in {"items", "contains", "propertyNames"} and "prefixItems" not in merged:
        if keyword == "contains":
            raise Unmergeable("two demands of contains")
        return intersect(a, b, bounds, depth + 1)
    if keyword == "anyOf" and isinstance(a, list) and isinstance(b, list):
        return _product(a, b, bounds, depth)
    if keyword == "not":
        return {"anyOf": [a, b]}
    raise Unmergeable(f"two different values of {keyword}")


def _product(a: list[Any], b: list[Any], bounds: ConversionBudget, depth: int) -> list[Any]:
    if len(a) * len(b) > MAX_BRANCHES:
        raise Unmergeable(f"unions that multiply to more than {MAX_BRANCHES} alternatives")
    branches = [intersect(x, y, bounds, depth + 1) for x in a for y in b]
    return [branch for branch in branches if branch != NOTHING] or [NOTHING]


def types_of(value: Any) -> list[str]:
    """`type` as a list."""
    return value if isinstance(value, list) else [value]


def _types(a: Any, b: Any) -> Any:
    common = []
    for kind in types_of(a):
        if kind in types_of(b):
            common.append(kind)
        elif {"number": "integer", "integer": "number"}.get(kind) in types_of(b):
            common.append("integer")
    return common[0] if len(common) == 1 else common


def _enums(a: Any, b: Any) -> Any:
    return [value for value in a if any(same(value, other) for other in b)]


def type_of(value: Any) -> str:
    """The JSON type of a decoded value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    return {str: "string", float: "number", list: "array"}.get(type(value), "object")


def is_null(schema: Any) -> bool:
    """Whether a schema is satisfied by null alone."""
    return isinstance(schema, dict) and (schema.get("type") in ("null", ["null"]) or _values(schema) == [None])


def same(a: Any, b: Any) -> bool:
    """Equality of JSON: true is not 1, 1 is 1.0."""
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def _multiples(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int) and a and b:
        return abs(a * b) // gcd(a, b)
    raise Unmergeable("two fractional values of multipleOf")


def _larger(a: Any, b: Any) -> Any:
    return max(a, b)


def _smaller(a: Any, b: Any) -> Any:
    return min(a, b)


_COMBINE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "type": _types,
    "enum": _enums,
    "required": lambda a, b: list(dict.fromkeys([*a, *b])),
    "minimum": _larger,
    "exclusiveMinimum": _larger,
    "minLength": _larger,
    "minItems": _larger,
    "minProperties": _larger,
    "maximum": _smaller,
    "exclusiveMaximum": _smaller,
    "maxLength": _smaller,
    "maxItems": _smaller,
    "maxProperties": _smaller,
    "multipleOf": _multiples,
    "uniqueItems": lambda a, b: a or b,
    "allOf": lambda a, b: [*a, *b],
}


def disjoint(branches: list[Any]) -> bool:
    """Whether it is certain that nothing satisfies two of the branches, so that `oneOf` and `anyOf` say the same."""
    return all(_apart(a, b) for i, a in enumerate(branches) for b in branches[i + 1 :])


def _apart(a: Any, b: Any) -> bool:
    if not isinstance(a, dict) or not isinstance(b, dict):
        return False
    values, others = _values(a), _values(b)
    if values is not None and others is not None:
        return not any(same(x, y) for x in values for y in others)
    if "type" in a and "type" in b and not types_of(_types(a["type"], b["type"])):
        return True
    shared = set(_properties(a)) & set(_properties(b)) & _required_names(a) & _required_names(b)
    return any(_apart(_properties(a)[name], _properties(b)[name]) for name in sorted(shared)) if shared else False


def _required_names(schema: JsonObject) -> set[str]:
    required = schema.get("required")
    return {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()


def _values(schema: JsonObject) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None


def union_of_objects(branches: list[JsonObject]) -> tuple[JsonObject, list[list[str]]]:
    """One object schema that holds every branch's properties, and what each branch requires.

    Accepts at least what any branch accepts: a property that branches describe differently may be as any of them
    says, and only what all require is required.
    """
    properties: dict[str, list[Any]] = {}
    for branch in branches:
        for name, schema in _properties(branch).items():
            seen = properties.setdefault(name, [])
            if schema not in seen:
                seen.append(schema)
    needs = [
        [name for name in _properties(b) if name in _required_names(b)]
        + sorted(_required_names(b) - set(_properties(b)))
        for b in branches
    ]
    merged: JsonObject = {
        "type": "object",
        "properties": {name: seen[0] if len(seen) == 1 else {"anyOf": seen} for name, seen in properties.items()},
    }
    common = [name for name in needs[0] if all(name in need for need in needs)] if needs else []
    if common:
        merged["required"] = common
    if all(branch.get("additionalProperties", True) is False for branch in branches):
        merged["additionalProperties"] = False
    return merged, needs
