"""Conversion steps for objects and arrays as a whole: `required`, `additionalProperties`, missing keywords.

Pure module; `steps` explains what a step is. `finish` runs last for every subschema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairlead_formats.schema import constraint_texts, merge
from fairlead_formats.schema.nulls import allows_null
from fairlead_formats.schema.untyped import any_value_schema
from fairlead_formats.tool_format import Action

if TYPE_CHECKING:
    from fairlead_formats.schema.walk import Walk

JsonObject = dict[str, Any]


def write_required(walk: Walk, out: JsonObject, schema: JsonObject, path: str, notes: list[str]) -> None:
    """Write `required`. Some targets accept only names of described properties in it."""
    names = schema["required"]
    if not (walk.target.typed or walk.target.lone_any_of):
        out["required"] = names
        return
    properties = schema.get("properties", {})
    described_names = [name for name in names if name in properties]
    if len(described_names) != len(names):
        missing_names = [name for name in names if name not in properties]
        walk.report_loss(path, "required", Action.DESCRIBED, "a required property is not described")
        notes.append(constraint_texts.describe("required", missing_names))
    if described_names or not names:
        out["required"] = names if len(described_names) == len(names) else described_names


def write_additional_properties(walk: Walk, out: JsonObject, schema: JsonObject, path: str, notes: list[str]) -> None:
    """Write `additionalProperties: false` for targets that require closed objects. Raises NotStrict for an open map."""
    if schema["additionalProperties"] is not False:
        walk.report_loss(
            path, "additionalProperties", Action.DROPPED, "an object with properties of any name cannot be closed"
        )
    out["additionalProperties"] = False


def leave_open(walk: Walk, keyword: str, value: Any, path: str, notes: list[str]) -> None:
    """Leave out a keyword that restricts undescribed properties. The value `false` needs no note for the model, which
    sees only described properties.
    """
    if value is False:
        action = Action.REWRITTEN if walk.target.strict else Action.WIDENED
        walk.report_loss(path, keyword, action, f"{walk.target.name} does not support {keyword}")
        return
    walk.report_loss(path, keyword, Action.DESCRIBED, f"{walk.target.name} does not support {keyword}")
    notes.append(constraint_texts.describe("additionalProperties", value))


def open_to_patterns(walk: Walk, out: JsonObject, schema: JsonObject, path: str) -> None:
    """Leave out `additionalProperties` where it would refuse properties that a left-out part of `patternProperties`
    allows.
    """
    left_out_patterns = schema["patternProperties"].keys() - out.get("patternProperties", {}).keys()
    if left_out_patterns and out.get("additionalProperties", True) not in (True, {}):
        del out["additionalProperties"]
        why = "it would apply to properties that patternProperties allows, too"
        walk.report_loss(path, "additionalProperties", Action.WIDENED, why)


def finish(walk: Walk, out: JsonObject, schema: JsonObject, path: str) -> None:
    """Add the keywords that the target requires for the resulting type."""
    target, kind = walk.target, out.get("type")
    if target.strict and "object" in merge.types_of(kind):
        _close(walk, out, schema, path)
    complete_array(walk, out, path)
    if target.typed and kind is None and not out.keys() & {"anyOf", "$ref", "enum"}:
        out.update(any_value_schema(walk, path))


def complete_array(walk: Walk, out: JsonObject, path: str) -> None:
    """Add `items` to an array where the target requires them."""
    target = walk.target
    if "array" not in merge.types_of(out.get("type")):
        if target.typed and isinstance(out.get("items"), bool):
            walk.report_loss(path, "items", Action.REWRITTEN, "items apply only to arrays")
            del out["items"]
        return
    if target.items and "items" not in out:
        if target.typed:
            out["items"] = any_value_schema(walk, f"{path}/items")
        else:
            walk.report_loss(path, "items", Action.REWRITTEN, "an array needs items; any value is allowed")
            out["items"] = {}
    elif target.typed and isinstance(out.get("items"), bool):
        _type_items(walk, out, path)


def _type_items(walk: Walk, out: JsonObject, path: str) -> None:
    if out["items"] is False:
        walk.report_loss(path, "items", Action.REWRITTEN, "`items: false` became `maxItems: 0`")
        out["maxItems"] = 0
    out["items"] = {"type": "string"} if out["items"] is False else any_value_schema(walk, f"{path}/items")


def _close(walk: Walk, out: JsonObject, schema: JsonObject, path: str) -> None:
    properties: JsonObject = out.setdefault("properties", {})
    if not properties and path and schema.get("additionalProperties") is not False:
        walk.report_loss(path, "properties", Action.DROPPED, "an object without described properties cannot be closed")
    if "additionalProperties" not in out:
        out["additionalProperties"] = False
        walk.report_loss(
            path, "additionalProperties", Action.REWRITTEN, "closed: only described properties may be given"
        )
    if not walk.target.closed:
        return
    required_names = set(out.get("required", ()))
    optional_names = [name for name in properties if name not in required_names]
    originals = schema.get("properties", {})
    for name in optional_names:
        original = walk.refs.peek(originals.get(name))
        if allows_null(original):
            _report_default(walk, original, f"{path}/properties/{name}")
        properties[name] = _or_null(properties[name])
    if optional_names:
        walk.report_loss(path, "required", Action.REWRITTEN, "an optional property is required and may be null")
    out["required"] = list(properties)


def _report_default(walk: Walk, original: Any, path: str) -> None:
    """Report that null, which the original schema allows, does not mean the default that an absent property has."""
    if isinstance(original, dict) and original.get("default") is not None:
        walk.report_loss(
            path, "required", Action.DROPPED, "the property has a default, so null and leaving it out differ"
        )


def _or_null(schema: JsonObject) -> JsonObject:
    if allows_null(schema):
        return schema
    kind = schema.get("type")
    if kind is not None:
        schema = {**schema, "type": list(dict.fromkeys([*merge.types_of(kind), "null"]))}
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
        return schema
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    description = {"description": schema["description"]} if "description" in schema else {}
    without_description = {key: value for key, value in schema.items() if key != "description"}
    return {"anyOf": [without_description, {"type": "null"}], **description}
