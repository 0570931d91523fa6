"""Replacements for schemas without a type: any value, no value, and the end of a recursion.

Pure module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fairlead_formats.schema import constraint_texts
from fairlead_formats.schema.rules import Cell
from fairlead_formats.tool_format import Action

if TYPE_CHECKING:
    from fairlead_formats.schema.walk import Walk

JsonObject = dict[str, Any]

SCALARS: Final = ("string", "number", "boolean")


def to_object_schema(walk: Walk, schema: Any, path: str) -> JsonObject:
    """The object schema for a boolean schema below the root, or for a value that is not a schema."""
    if schema is False:
        if walk.target.nested["not"] is Cell.KEEP:
            walk.report_loss(path, "false", Action.REWRITTEN, "the schema `false` became `not`")
            return {"not": {}}
        walk.report_loss(path, "false", Action.DESCRIBED, "the schema `false` is only described")
        return {"type": "string", "description": "Must not be given."}
    if schema is not True:
        walk.report_loss(path, "", Action.WIDENED, f"{constraint_texts.compact(schema)} is not a schema")
    return any_value_schema(walk, path)


def any_value_schema(walk: Walk, path: str) -> JsonObject:
    """A schema for any value. Raises NotStrict if the target supports none."""
    if not walk.target.typed:
        return {}
    why = "a schema without a type became a schema for any value, in which arrays may have only strings"
    walk.report_loss(path, "type", Action.NARROWED, why)
    return {"anyOf": [{"type": kind} for kind in SCALARS] + [{"type": "object"}, _array_of_strings()]}


def _array_of_strings() -> JsonObject:
    return {"type": "array", "items": {"type": "string"}}


def cut_recursion(walk: Walk, ref: str, target: Any, rest: JsonObject, path: str) -> JsonObject:
    """The schema at which a recursive reference is cut; the shape of its target is only described."""
    name = walk.refs.name(ref)
    walk.report_loss(path, "$ref", Action.DESCRIBED, f"{ref} is recursive: below this path its shape is only described")
    kind = target.get("type", "object") if isinstance(target, dict) else "object"
    out: JsonObject = {"type": kind} if kind in ("object", "string", "number", "integer", "boolean") else {}
    if kind == "array":
        out = {"type": "array", "items": {"type": "object"}}
    if not out:
        out = any_value_schema(walk, path)
    description = rest.get("description")
    note = f"a nested {name}, of the same shape" if name != "root" else "of the same shape as the whole"
    out["description"] = constraint_texts.with_notes(description if isinstance(description, str) else None, [note])
    return out
