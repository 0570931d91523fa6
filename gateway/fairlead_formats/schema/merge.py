"""Intersection of schemas (`allOf`) and union of object schemas (alternatives of a tool's arguments).

Pure module, for original schemas whose `$ref`s are resolved. An intersection is exact; if there is none, `Unmergeable`
says why.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any, Final

from fairlead_formats.schema.budget import MAX_BRANCHES, ConversionBudget

JsonObject = dict[str, Any]

NOTHING: Final[JsonObject] = {"not": {}}
"""The schema that no value satisfies."""
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
"""Keywords that do not constrain values."""


class Unmergeable(ValueError):
    """Two schemas whose intersection needs `allOf`."""


def intersect(first: Any, second: Any, budget: ConversionBudget, depth: int = 0) -> Any:
    """The schema for values that satisfy both schemas, with annotations of `first`. Raises Unmergeable, TooMuch."""
    budget.charge_node(depth)
    if first is True or first == {} or first == second:
        return second
    if second is True or second == {}:
        return first
    if not isinstance(first, dict) or not isinstance(second, dict):
        return NOTHING
    merged_schema = dict(first)
    for keyword, value in second.items():
        if keyword in _OBJECT:
            continue
        if keyword not in merged_schema:
            merged_schema[keyword] = value
        elif merged_schema[keyword] != value and keyword not in ANNOTATIONS:
            merged_schema[keyword] = _intersect_values(
                keyword, merged_schema[keyword], value, merged_schema, budget, depth
            )
    _intersect_objects(merged_schema, first, second, budget, depth)
    if isinstance(merged_schema.get("type"), list) and not merged_schema["type"]:
        return NOTHING
    return merged_schema


_OBJECT: Final = frozenset({"properties", "patternProperties", "additionalProperties"})


def _intersect_objects(
    merged_schema: JsonObject, first: JsonObject, second: JsonObject, budget: ConversionBudget, depth: int
) -> None:
    """Intersect the three keywords about properties, which depend on each other: each schema may constrain properties
    that the other names.
    """
    if not (_OBJECT & second.keys()):
        return
    sides = (first, second)
    if any("patternProperties" in side for side in sides) and _OBJECT & first.keys():
        raise Unmergeable("both schemas have patternProperties")
    for keyword in _OBJECT & second.keys():
        merged_schema.setdefault(keyword, second[keyword])
    names = dict.fromkeys(name for side in sides for name in _properties(side))
    if names:
        merged_schema["properties"] = {
            name: intersect(_property(first, name), _property(second, name), budget, depth + 1) for name in names
        }
    rest = intersect(
        first.get("additionalProperties", True), second.get("additionalProperties", True), budget, depth + 1
    )
    if rest is not True:
        merged_schema["additionalProperties"] = False if rest == NOTHING else rest


def _properties(schema: JsonObject) -> JsonObject:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _property(schema: JsonObject, name: str) -> Any:
    properties = _properties(schema)
    return properties[name] if name in properties else schema.get("additionalProperties", True)


def _intersect_values(
    keyword: str, a: Any, b: Any, merged_schema: JsonObject, budget: ConversionBudget, depth: int
) -> Any:
    if keyword in _COMBINERS:
        try:
            return _COMBINERS[keyword](a, b)
        except TypeError as error:
            raise Unmergeable(f"the two values of {keyword} cannot be compared") from error
    if keyword in {"items", "contains", "propertyNames"} and "prefixItems" not in merged_schema:
        if keyword == "contains":
            raise Unmergeable("both schemas have contains")
        return intersect(a, b, budget, depth + 1)
    if keyword == "anyOf" and isinstance(a, list) and isinstance(b, list):
        return _product(a, b, budget, depth)
    if keyword == "not":
        return {"anyOf": [a, b]}
    raise Unmergeable(f"the two values of {keyword} differ")


def _product(a: list[Any], b: list[Any], budget: ConversionBudget, depth: int) -> list[Any]:
    if len(a) * len(b) > MAX_BRANCHES:
        raise Unmergeable(f"the unions combine to more than {MAX_BRANCHES} alternatives")
    branches = [intersect(x, y, budget, depth + 1) for x in a for y in b]
    return [branch for branch in branches if branch != NOTHING] or [NOTHING]


def types_of(value: Any) -> list[str]:
    """The value of `type` as a list."""
    return value if isinstance(value, list) else [value]


def _types(a: Any, b: Any) -> Any:
    common_types = []
    for kind in types_of(a):
        if kind in types_of(b):
            common_types.append(kind)
        elif {"number": "integer", "integer": "number"}.get(kind) in types_of(b):
            common_types.append("integer")
    return common_types[0] if len(common_types) == 1 else common_types


def _enums(a: Any, b: Any) -> Any:
    return [value for value in a if any(json_equal(value, other) for other in b)]


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
    """Whether null is the only value that satisfies a schema."""
    return isinstance(schema, dict) and (schema.get("type") in ("null", ["null"]) or _values(schema) == [None])


def json_equal(a: Any, b: Any) -> bool:
    """Equality in JSON: unlike in Python, true is not 1; 1 equals 1.0."""
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def _multiples(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int) and a and b:
        return abs(a * b) // gcd(a, b)
    raise Unmergeable("the two values of multipleOf are not both integers")


def _larger(a: Any, b: Any) -> Any:
    return max(a, b)


def _smaller(a: Any, b: Any) -> Any:
    return min(a, b)


_COMBINERS: Final[dict[str, Callable[[Any, Any], Any]]] = {
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


def are_disjoint(branches: list[Any]) -> bool:
    """Whether certainly no value satisfies two of the branches, so that `oneOf` means the same as `anyOf`."""
    return all(_two_are_disjoint(a, b) for i, a in enumerate(branches) for b in branches[i + 1 :])


def _two_are_disjoint(a: Any, b: Any) -> bool:
    if not isinstance(a, dict) or not isinstance(b, dict):
        return False
    values, others = _values(a), _values(b)
    if values is not None and others is not None:
        return not any(json_equal(x, y) for x in values for y in others)
    if "type" in a and "type" in b and not types_of(_types(a["type"], b["type"])):
        return True
    shared_names = set(_properties(a)) & set(_properties(b)) & _required_names(a) & _required_names(b)
    return (
        any(_two_are_disjoint(_properties(a)[name], _properties(b)[name]) for name in sorted(shared_names))
        if shared_names
        else False
    )


def _required_names(schema: JsonObject) -> set[str]:
    required = schema.get("required")
    return {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()


def _values(schema: JsonObject) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None


def union_of_objects(branches: list[JsonObject]) -> tuple[JsonObject, list[list[str]]]:
    """One object schema with the properties of all branches, and the names that each branch requires.

    A property may satisfy the schema of any branch that describes it, and is required only if all branches require it.
    `properties_narrowed_by_union` returns the properties for which some branch accepts more values.
    """
    properties: dict[str, list[Any]] = {}
    for branch in branches:
        for name, schema in _properties(branch).items():
            schemas = properties.setdefault(name, [])
            if schema not in schemas:
                schemas.append(schema)
    required_by_branch = [
        [name for name in _properties(b) if name in _required_names(b)]
        + sorted(_required_names(b) - set(_properties(b)))
        for b in branches
    ]
    merged_schema: JsonObject = {
        "type": "object",
        "properties": {
            name: schemas[0] if len(schemas) == 1 else {"anyOf": schemas} for name, schemas in properties.items()
        },
    }
    common_names = (
        [name for name in required_by_branch[0] if all(name in need for need in required_by_branch)]
        if required_by_branch
        else []
    )
    if common_names:
        merged_schema["required"] = common_names
    if all(branch.get("additionalProperties", True) is False for branch in branches):
        merged_schema["additionalProperties"] = False
    return merged_schema, required_by_branch


def properties_narrowed_by_union(branches: list[JsonObject], union: JsonObject) -> list[str]:
    """Names of properties for which the union accepts fewer values than a branch that does not describe them."""
    return [
        name
        for name, schema in _properties(union).items()
        if schema is not True and schema != {} and any(_is_open_to(branch, name) for branch in branches)
    ]


def _is_open_to(branch: JsonObject, name: str) -> bool:
    return name not in _properties(branch) and branch.get("additionalProperties", True) is not False
