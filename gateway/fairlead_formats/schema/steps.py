"""Conversion steps for keywords that a target supports in another form.

Pure module. A step writes the converted keyword into `out`, appends sentences for the model's description to `notes`,
and reports losses with `walk.report_loss`, where `walk` is the `Walk` of the conversion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from fairlead_formats.schema import closing, constraint_texts, merge, patterns
from fairlead_formats.schema.merge import type_of
from fairlead_formats.schema.rules import Cell
from fairlead_formats.schema.untyped import any_value_schema
from fairlead_formats.tool_format import Action

if TYPE_CHECKING:
    from fairlead_formats.schema.walk import Walk

JsonObject = dict[str, Any]


def replace_one_of(walk: Walk, schema: JsonObject, path: str) -> JsonObject:
    """The schema with `anyOf` in place of `oneOf`."""
    if merge.are_disjoint([walk.refs.peek(branch) for branch in schema["oneOf"]]):
        walk.report_loss(path, "oneOf", Action.REWRITTEN, "oneOf with exclusive alternatives became anyOf")
    else:
        walk.report_loss(path, "oneOf", Action.WIDENED, "oneOf became anyOf: more than one alternative may fit")
    rest = {key: value for key, value in schema.items() if key != "oneOf"}
    if "anyOf" not in rest:
        return {**rest, "anyOf": schema["oneOf"]}
    try:
        return {**rest, **merge.intersect({"anyOf": rest["anyOf"]}, {"anyOf": schema["oneOf"]}, walk.budget)}
    except merge.Unmergeable as error:
        walk.report_loss(path, "oneOf", Action.WIDENED, f"oneOf next to anyOf is left out: {error}")
        return rest


def reshape(walk: Walk, schema: JsonObject, path: str) -> JsonObject:
    """The schema with types, null, tuples and enums in the target's form; the same object if it has that form."""
    target = walk.target
    if "nullable" in schema and target.nested["nullable"] is not Cell.KEEP:
        schema = _without_nullable(walk, schema, path)
    schema = modernize_tuple(walk, schema, path)
    kind = schema.get("type")
    if kind is None and target.typed and not schema.keys() & {"anyOf", "oneOf", "allOf"}:
        schema = _with_type(walk, schema, path)
        kind = schema.get("type")
    if isinstance(kind, list):
        if len(kind) == 1:
            walk.report_loss(path, "type", Action.REWRITTEN, "a list with one type was replaced by the type")
            return {**schema, "type": kind[0]}
        if not target.type_lists:
            return _split_types(walk, schema, kind, path)
    return schema


def modernize_tuple(walk: Walk, schema: JsonObject, path: str) -> JsonObject:
    """The schema with tuples in the form of draft 2020-12, where `items` is for the items that follow `prefixItems`;
    the same object if it has that form.
    """
    if not isinstance(schema.get("items"), list) and "additionalItems" not in schema:
        return schema
    rest = {key: value for key, value in schema.items() if key != "additionalItems"}
    if isinstance(schema.get("items"), list):
        rest["prefixItems"] = rest.pop("items")
        if isinstance(schema.get("additionalItems"), dict | bool):
            rest["items"] = schema["additionalItems"]
    walk.report_loss(path, "items", Action.REWRITTEN, "a tuple of an older draft became prefixItems")
    return rest


_TYPICAL_KEYWORDS: Final = (
    ("object", frozenset({"properties", "required", "additionalProperties", "minProperties", "maxProperties"})),
    ("array", frozenset({"items", "prefixItems", "minItems", "maxItems", "uniqueItems"})),
    ("string", frozenset({"minLength", "maxLength", "pattern", "format"})),
    ("number", frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})),
)


def _with_type(walk: Walk, schema: JsonObject, path: str) -> JsonObject:
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list):
        kinds = list(dict.fromkeys(type_of(value) for value in values))
        walk.report_loss(path, "type", Action.REWRITTEN, "the type is derived from the values")
        return {**schema, "type": kinds[0] if len(kinds) == 1 else kinds}
    for kind, keywords in _TYPICAL_KEYWORDS:
        if keywords & schema.keys():
            walk.report_loss(
                path, "type", Action.NARROWED, f"every schema needs a type; the other keywords imply {kind}"
            )
            return {**schema, "type": kind}
    return {**schema, **any_value_schema(walk, path)}


def _without_nullable(walk: Walk, schema: JsonObject, path: str) -> JsonObject:
    """The schema without `nullable`, a keyword of OpenAPI 3.0 and not of JSON Schema. The tool's server probably
    refuses null. The gateway refuses it, because it validates arguments with the original schema.
    """
    action = Action.DROPPED if schema["nullable"] else Action.REWRITTEN
    walk.report_loss(path, "nullable", action, "nullable is not a keyword of JSON Schema")
    return {key: value for key, value in schema.items() if key != "nullable"}


_KEYWORDS_OF_TYPE: Final[dict[str, frozenset[str]]] = {
    "string": frozenset({"minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "integer": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "array": frozenset({"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"}),
    "object": frozenset(
        {
            "properties",
            "required",
            "additionalProperties",
            "patternProperties",
            "propertyNames",
            "minProperties",
            "maxProperties",
        }
    ),
}
_TYPE_KEYWORDS: Final = frozenset().union(*_KEYWORDS_OF_TYPE.values())


def _split_types(walk: Walk, schema: JsonObject, kinds: list[str], path: str) -> JsonObject:
    """The schema with a list of types as one type, `nullable` or `anyOf`; each alternative has its type's keywords."""
    other_kinds = [kind for kind in kinds if kind != "null"]
    if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
        kinds = other_kinds or kinds  # the enum excludes null, whatever `type` lists
    if len(kinds) == 1:
        walk.report_loss(path, "type", Action.REWRITTEN, "the enum does not include null")
        return {**schema, "type": kinds[0]}
    if walk.target.nullable and len(other_kinds) == 1:
        walk.report_loss(path, "type", Action.REWRITTEN, "a union with null became nullable")
        return {**schema, "type": other_kinds[0], "nullable": True}
    if "anyOf" in schema or "not" in schema:
        walk.report_loss(path, "type", Action.WIDENED, "a list of types next to anyOf is left out")
        return {key: value for key, value in schema.items() if key != "type"}
    walk.report_loss(path, "type", Action.REWRITTEN, "a list of types became an anyOf")
    branches: list[JsonObject] = []
    for kind in kinds:
        branch: JsonObject = {"type": kind}
        branch.update({key: value for key, value in schema.items() if key in _KEYWORDS_OF_TYPE.get(kind, ())})
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if values is not None:
            fitting_values = [value for value in values if _fits(value, kind)]
            if not fitting_values:
                continue
            if kind != "null":
                branch["enum"] = fitting_values
        branches.append(branch)
    shared_members = {k: v for k, v in schema.items() if k not in _TYPE_KEYWORDS and k not in {"type", "enum", "const"}}
    return (
        {**shared_members, "anyOf": branches}
        if branches
        else {**shared_members, "type": other_kinds[0] if other_kinds else "null"}
    )


def _fits(value: Any, kind: str) -> bool:
    value_kind = type_of(value)
    return value_kind == kind or (kind == "number" and value_kind == "integer")


def isolate_any_of(walk: Walk, schema: JsonObject, path: str, depth: int) -> JsonObject:
    """The schema for a target whose `anyOf` has no siblings: null becomes `nullable`, other keywords move into the
    branches.
    """
    rest = {key: value for key, value in schema.items() if key not in {"anyOf", "default"}}
    branches = [branch for branch in schema["anyOf"] if not merge.is_null(walk.refs.peek(branch))]
    has_null = len(branches) < len(schema["anyOf"])
    constraints = {key: value for key, value in rest.items() if key not in merge.ANNOTATIONS}
    if constraints:
        branches = _with_siblings(walk, branches, constraints, path)
    if not branches:
        branches = [{"type": "null"}] if has_null else [True]
    description = rest.get("description")
    if has_null or constraints or description:
        walk.report_loss(
            path,
            "anyOf",
            Action.REWRITTEN,
            "anyOf has no siblings: null became nullable, other keywords moved into the branches",
        )
    if "default" in schema:
        default = constraint_texts.describe("default", schema["default"])
        walk.report_loss(path, "default", Action.DESCRIBED, "a default next to anyOf is only described")
        description = constraint_texts.with_notes(description if isinstance(description, str) else None, [default])
    converted_branches = [
        walk.convert_subschema(branch, f"{path}/anyOf/{i}", depth + 1) for i, branch in enumerate(branches)
    ]
    flat_branches = [
        inner
        for branch in converted_branches
        for inner in (branch["anyOf"] if branch.keys() == {"anyOf"} else [branch])
    ]
    if isinstance(description, str) and description:
        flat_branches = [_describe(branch, description) for branch in flat_branches]
    if has_null:
        flat_branches = [{**branch, "nullable": True} for branch in flat_branches]
    return flat_branches[0] if len(flat_branches) == 1 else {"anyOf": flat_branches}


def merge_description_into_branches(schema: JsonObject) -> JsonObject:
    """A converted schema with only `anyOf`: its description moves into the branches."""
    text = schema.get("description")
    branches = schema["anyOf"]
    return {"anyOf": [_describe(branch, text) for branch in branches] if isinstance(text, str) else branches}


def _describe(branch: JsonObject, text: str) -> JsonObject:
    description = branch.get("description")
    return {**branch, "description": text if not description or description in text else f"{text} {description}"}


def _with_siblings(walk: Walk, branches: list[Any], siblings: JsonObject, path: str) -> list[Any]:
    out = []
    for branch in branches:
        try:
            merged_branch = merge.intersect(walk.follow(branch, path), siblings, walk.budget)
        except merge.Unmergeable as error:
            walk.report_loss(path, "anyOf", Action.WIDENED, f"keywords next to anyOf are left out: {error}")
            merged_branch = branch
        if merged_branch != merge.NOTHING:
            out.append(merged_branch)
    return out


Step = Callable[["Walk", JsonObject, JsonObject, str, list[str]], None]

STEPS: Final[dict[str, Step]] = {
    "type": lambda walk, out, schema, path, notes: out.__setitem__("type", schema["type"]),
    "required": closing.write_required,
    "additionalProperties": closing.write_additional_properties,
    "enum": patterns.write_enum,
    "const": patterns.write_const,
    "pattern": patterns.write_pattern,
    "patternProperties": patterns.write_pattern_properties,
    "format": patterns.write_format,
    "minItems": patterns.write_min_items,
    "prefixItems": patterns.write_prefix_items,
    "exclusiveMinimum": patterns.write_exclusive_minimum,
    "exclusiveMaximum": patterns.write_exclusive_maximum,
    "minimum": patterns.write_bounds,
    "maximum": patterns.write_bounds,
    "nullable": patterns.write_nullable,
}
