"""Conversion of a pydantic model's JSON Schema to a structural schema, the form that an API server requires.

A part of the schema that cannot be converted raises `NotStructural`; it is not dropped. This module has no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel

_KEPT: Final = (
    "type",
    "format",
    "description",
    "enum",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "required",
    "nullable",
)
_DROPPED: Final = ("title", "$defs", "additionalProperties", "properties", "items", "const", "$ref", "anyOf")
_VENDOR: Final = "x-kubernetes-"
_LIST_TYPE: Final = f"{_VENDOR}list-type"


class NotStructural(Exception):
    """The schema uses a feature that a CustomResourceDefinition does not support."""


def structural_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of `model` with all references inlined and with docstrings as descriptions.

    Raises:
        NotStructural: with the field and the unsupported feature.
    """
    schema = model.model_json_schema(by_alias=True)
    return _convert(schema, schema.get("$defs", {}), ())


def without_defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without any defaults: an API server must not add defaults to a status."""
    result = {key: value for key, value in schema.items() if key != "default"}
    if "properties" in schema:
        result["properties"] = {name: without_defaults(member) for name, member in schema["properties"].items()}
    if "items" in schema:
        result["items"] = without_defaults(schema["items"])
    return result


def _convert(schema: Mapping[str, Any], defs: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    schema = _resolve(schema, defs, path)
    unknown = [key for key in schema if key not in _KEPT + _DROPPED and not key.startswith(_VENDOR)]
    if unknown:
        raise NotStructural(f"{'.'.join(path)}: {', '.join(unknown)} is not supported in a CRD")
    result = {key: schema[key] for key in _KEPT if key in schema}
    if "description" in result:
        result["description"] = " ".join(result["description"].split())
    if result.get("type") == "integer":
        result.setdefault("format", _width(result))
    if "const" in schema:
        result["enum"] = [schema["const"]]
    if "properties" in schema:
        result["properties"] = {
            name: _convert(member, defs, (*path, name)) for name, member in schema["properties"].items()
        }
    if "items" in schema:
        result["items"] = _convert(schema["items"], defs, (*path, "[]"))
        result[_LIST_TYPE] = "atomic"  # the API server's default, which the field may override below
    result |= _map_values(schema, defs, path)
    result |= {key: value for key, value in schema.items() if key.startswith(_VENDOR)}
    return _with_plain_default(result)


def _width(schema: Mapping[str, Any]) -> str:
    """Format of an integer by its bounds: generated clients use `int32` and `int64`."""
    lowest, highest = schema.get("minimum"), schema.get("maximum")
    bounded = lowest is not None and highest is not None and lowest >= -(2**31) and highest < 2**31
    return "int32" if bounded else "int64"


def _map_values(schema: Mapping[str, Any], defs: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Schema of additional members: a free-form object keeps unknown members, a map has one schema for all values."""
    values = schema.get("additionalProperties")
    if values is True:
        return {f"{_VENDOR}preserve-unknown-fields": True}
    if isinstance(values, Mapping):
        return {"additionalProperties": _convert(values, defs, (*path, "*"))}
    return {}


def _with_plain_default(schema: dict[str, Any]) -> dict[str, Any]:
    """Drop empty defaults. An object's default becomes `{}`, so that the defaults of its members apply."""
    default = schema.get("default")
    if default is None or default == [] or default == "" or (default == {} and "properties" not in schema):
        schema.pop("default", None)
    elif isinstance(default, Mapping) and "properties" in schema:
        schema["default"] = {}
    return schema


def _resolve(schema: Mapping[str, Any], defs: Mapping[str, Any], path: tuple[str, ...]) -> Mapping[str, Any]:
    """Replace a `$ref` by its target, or an `anyOf` by its only type besides null. Members beside the `$ref` or `anyOf`
    override members of the replacement.
    """
    if len(path) > 24:
        raise NotStructural(f"{'.'.join(path)}: recursion cannot be expressed in a CRD")
    if "$ref" in schema:
        target = defs[schema["$ref"].rpartition("/")[2]]
        return _resolve({**target, **{key: value for key, value in schema.items() if key != "$ref"}}, defs, path)
    if "anyOf" in schema:
        arm = _one_arm(schema["anyOf"], path)
        return _resolve({**arm, **{key: value for key, value in schema.items() if key != "anyOf"}}, defs, path)
    return schema


def _one_arm(arms: Sequence[Mapping[str, Any]], path: tuple[str, ...]) -> Mapping[str, Any]:
    present = [arm for arm in arms if arm.get("type") != "null"]
    if len(present) == 1:
        return present[0]
    if {arm.get("type") for arm in present} == {"integer", "string"}:
        return {f"{_VENDOR}int-or-string": True}
    raise NotStructural(f"{'.'.join(path)}: only a type that may be absent, and int | str, can be a union")
