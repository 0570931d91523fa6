"""Null in schemas and arguments: whether a schema allows it, `nullable` of OpenAPI, and nulls that mean "left out".

Pure module. Strict mode makes models send nulls for optional properties. `remove_nulls` removes them: it receives the
model's arguments and the tool's original schema, before arguments are validated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairlead_formats.schema.refs import SchemaReferences

MAX_DEPTH: Final = 100
MAX_SHAPES: Final = 200
"""Maximum number of alternatives of one schema that are examined."""

_APPLICATORS: Final = ("$ref", "allOf", "anyOf", "oneOf", "not", "if")
_ANNOTATIONS: Final[tuple[str, ...]] = ("title", "description", "default", "deprecated", "examples")

JsonObject = dict[str, Any]


def allows_null(schema: Any) -> bool:
    """Whether null satisfies a schema, without following a `$ref`."""
    if not isinstance(schema, dict):
        return schema is True
    kind = schema.get("type")
    if kind is not None and kind != "null" and not (isinstance(kind, list) and "null" in kind):
        return False
    if "const" in schema:
        return schema["const"] is None
    if isinstance(schema.get("enum"), list):
        return None in schema["enum"]
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list) and not any(map(allows_null, schema[keyword])):
            return False
    return "$ref" not in schema and "not" not in schema and "allOf" not in schema


def with_null(schema: JsonObject) -> JsonObject:
    """A schema that also allows null, which is what authors mean by `nullable` beside any keyword: one type allows null
    as soon as it is listed, but `enum`, `const`, a reference and combined schemas would still forbid it.
    """
    applicators = [keyword for keyword in _APPLICATORS if keyword in schema]
    alternatives = schema.get("anyOf")
    if (
        applicators == ["anyOf"]
        and isinstance(alternatives, list)
        and schema.keys().isdisjoint(("type", "enum", "const"))
    ):
        return schema if any(map(allows_null, alternatives)) else {**schema, "anyOf": [*alternatives, {"type": "null"}]}
    if applicators or schema.get("const") is not None:
        annotations = {keyword: schema[keyword] for keyword in _ANNOTATIONS if keyword in schema}
        constraints = {keyword: value for keyword, value in schema.items() if keyword not in _ANNOTATIONS}
        return {**annotations, "anyOf": [constraints, {"type": "null"}]}
    nullable_schema = dict(schema)
    types, values = nullable_schema.get("type"), nullable_schema.get("enum")
    if isinstance(types, str):
        nullable_schema["type"] = types if types == "null" else [types, "null"]
    elif isinstance(types, list) and "null" not in types:
        nullable_schema["type"] = [*types, "null"]
    if isinstance(values, list) and None not in values:
        nullable_schema["enum"] = [*values, None]
    return nullable_schema


def remove_nulls(arguments: JsonObject, schema: Mapping[str, Any]) -> JsonObject:
    """A copy of the arguments without nulls that stand for "left out", at every level.

    A null is removed if the original schema describes the property, does not require it and does not allow null. All
    other nulls stay.
    """
    remaining = _Cleaner(dict(schema)).clean(arguments, schema, 0)
    return remaining if isinstance(remaining, dict) else arguments


class _Cleaner:
    def __init__(self, root: JsonObject) -> None:
        self._refs = SchemaReferences(root)

    def clean(self, value: Any, schema: Any, depth: int) -> Any:
        if depth > MAX_DEPTH or not isinstance(value, dict | list) or not isinstance(schema, (dict, Mapping)):
            return value
        shapes = self._shapes(schema)
        if isinstance(value, list):
            item_schemas = [shape["items"] for shape in shapes if isinstance(shape.get("items"), dict)]
            if not item_schemas:
                return value
            union = item_schemas[0] if len(item_schemas) == 1 else {"anyOf": item_schemas}
            return [self.clean(item, union, depth + 1) for item in value]
        out = {}
        for name, part in value.items():
            shapes_with_name = [shape for shape in shapes if name in _properties(shape)]
            subschemas = [shape["properties"][name] for shape in shapes_with_name]
            if (
                part is None
                and shapes_with_name
                and not any(
                    self._means_null(name, shape, subschema)
                    for shape, subschema in zip(shapes_with_name, subschemas, strict=True)
                )
            ):
                continue
            union = subschemas[0] if len(subschemas) == 1 else {"anyOf": subschemas}
            out[name] = self.clean(part, union, depth + 1) if subschemas else part
        return out

    def _means_null(self, name: str, shape: Mapping[str, Any], schema: Any) -> bool:
        required_names = shape.get("required")
        if isinstance(required_names, list) and name in required_names:
            return True
        if not isinstance(schema, Mapping):
            return bool(schema)
        return any(
            allows_null(alternative)
            for alternative in self._shapes(schema)
            if not alternative.keys() & {"allOf", "$ref"}
        )

    def _shapes(self, schema: Any) -> list[Mapping[str, Any]]:
        """The schema and all its alternatives and parts, with references followed; at most `MAX_SHAPES`."""
        queue, shapes = [schema], []
        for subschema in queue:
            if len(queue) > MAX_SHAPES or not isinstance(subschema, (dict, Mapping)):
                continue
            shapes.append(subschema)
            if "$ref" in subschema:
                queue.append(self._refs.target(subschema["$ref"]))
            for keyword in ("anyOf", "oneOf", "allOf"):
                if isinstance(subschema.get(keyword), list):
                    queue += subschema[keyword]
        return shapes


def _properties(shape: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = shape.get("properties")
    return properties if isinstance(properties, (dict, Mapping)) else {}
