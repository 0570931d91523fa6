"""Conversion of the schema of a tool's arguments to one target; the package's entry point.

Pure module. A strict target is tried first, if there is one. A schema that would lose anything in the strict target is
converted to the other target as a whole.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fairlead_formats.schema import constraint_texts, merge, nesting, property_names, shapes
from fairlead_formats.schema.budget import MAX_DEPTH, TooMuch
from fairlead_formats.schema.counts import measure_schema
from fairlead_formats.schema.rules import Cell, SchemaTarget
from fairlead_formats.schema.walk import NotStrict, SchemaLoss, Walk
from fairlead_formats.tool_format import Action

JsonObject = dict[str, Any]

_UNIONS: Final[tuple[str, ...]] = ("anyOf", "oneOf")
EMPTY: Final[JsonObject] = {"type": "object", "properties": {}}


class UnusableSchema(ValueError):
    """A schema that no tool can have; the message says why."""


class ConvertedSchema(msgspec.Struct, frozen=True):
    """A converted schema with a report of what changed."""

    schema: JsonObject
    strict: bool = False
    notes: str = ""
    """Sentences for the tool's description, about keywords at the root that the target does not support."""
    losses: tuple[SchemaLoss, ...] = ()
    names: dict[str, str] = {}
    """Maps renamed properties to their original names."""


def convert(schema: Any, lax: SchemaTarget, strict: SchemaTarget | None = None) -> ConvertedSchema:
    """Convert `inputSchema` to `strict` if `strict` is given and nothing is lost, else to `lax`.

    Raises UnusableSchema for a schema whose instances are not objects, and TooMuch for one that exceeds the budget.
    """
    if lax.names is None or schema.__class__ is not dict:
        return _convert(schema, lax, strict)
    try:
        renamed_schema, names = property_names.rename(schema, lax.names)
    except RecursionError as error:
        raise TooMuch("the schema is nested too deeply") from error
    outcome = _convert(renamed_schema, lax, strict)
    return _with_names(outcome, names, lax.name) if names else outcome


def _with_names(outcome: ConvertedSchema, names: dict[str, str], target: str) -> ConvertedSchema:
    """The outcome for a schema with renamed properties, with paths and names of the original schema in its report."""
    why = "property {} was renamed to {}: {} does not accept the original name"
    rename_losses = [
        ("", "properties", Action.REWRITTEN, why.format(constraint_texts.compact(name), other, target))
        for other, name in names.items()
    ]
    paths = [property_names.restore_path(path, names) for path, *_ in outcome.losses]
    others = [(path, *rest) for path, (_, *rest) in zip(paths, outcome.losses, strict=True)]
    return msgspec.structs.replace(outcome, losses=(*rename_losses, *others), names=names)


def _convert(schema: Any, lax: SchemaTarget, strict: SchemaTarget | None) -> ConvertedSchema:
    if strict is not None:
        try:
            return _walk(schema, strict)
        except (NotStrict, TooMuch) as error:
            outcome = _convert(schema, lax, None)
            path, keyword = (error.path, error.keyword) if isinstance(error, NotStrict) else ("", "")
            why = (path, keyword, Action.NON_STRICT, str(error))
            return msgspec.structs.replace(outcome, losses=(why, *outcome.losses))
    if schema.__class__ is dict and shapes.is_plain(schema, (lax.max_levels or MAX_DEPTH) - 1):
        return ConvertedSchema(schema)
    return _walk(schema, lax)


def _walk(schema: Any, target: SchemaTarget) -> ConvertedSchema:
    try:
        return _convert_root(schema, target)
    except RecursionError as error:
        raise TooMuch("the schema is nested too deeply") from error


def _convert_root(schema: Any, target: SchemaTarget) -> ConvertedSchema:
    if schema is None or schema is True:
        note = ("", "inputSchema", Action.REWRITTEN, "a tool without a schema takes no arguments")
        schema, first_losses = EMPTY, [note]
    elif not isinstance(schema, dict):
        raise UnusableSchema(f"inputSchema is {constraint_texts.compact(schema)}, not a schema of an object")
    else:
        first_losses = []
    walk = Walk(schema, target)
    walk.losses += first_losses
    shape = _shape_root(walk, walk.drop_malformed(schema, ""))
    walk.budget.charge_node(0)
    out = walk.write(shape, "", 0, target.root)
    _complete_object(walk, out, shape)
    _definitions(walk, out, schema)
    if target.strict:
        _check_limits(walk, out)
    out = nesting.limit(walk, out)
    notes = ""
    if target.root.get("description") is Cell.NOTE or out.get("description") != schema.get("description"):
        notes = out.pop("description", "")
    return ConvertedSchema(out, target.strict, notes, tuple(walk.losses))


def _shape_root(walk: Walk, schema: JsonObject) -> JsonObject:
    """The root without `$ref`, and without combinators that the target does not support there."""
    table = walk.target.root
    if "$ref" in schema:
        walk.report_loss("", "$ref", Action.REWRITTEN, "the root's $ref was replaced by its target")
        schema = _follow(walk, schema)
    if "allOf" in schema and table["allOf"] is Cell.FIX:
        schema = walk.drop_malformed(walk.merge_all_of({**schema}, ""), "")
        if "$ref" in schema:
            schema = _follow(walk, schema)
    kinds = merge.types_of(schema.get("type", "object"))
    if "object" not in kinds:
        raise UnusableSchema(
            f"the arguments are of type {constraint_texts.compact(schema['type'])}; a tool takes an object"
        )
    if schema.get("type") != "object":
        walk.report_loss("", "type", Action.REWRITTEN, "the arguments of a tool are an object")
        schema = {**schema, "type": "object"}
    for keyword in _UNIONS:
        if keyword in schema and table[keyword] is Cell.FIX:
            schema = _merge_union(walk, schema, keyword)
    if "additionalItems" in schema:
        walk.report_loss(
            "", "additionalItems", Action.REWRITTEN, "it applies to arrays, and the arguments are an object"
        )
        schema = {key: value for key, value in schema.items() if key != "additionalItems"}
    return schema


def _follow(walk: Walk, schema: JsonObject) -> JsonObject:
    target = walk.follow(schema, "")
    if not isinstance(target, dict):
        raise UnusableSchema("the arguments are a boolean schema, not an object")
    return walk.drop_malformed(target, "")


def _merge_union(walk: Walk, schema: JsonObject, keyword: str, depth: int = 0) -> JsonObject:
    """The schema with the union of objects at its root merged into one set of properties. The alternatives are
    described.
    """
    walk.budget.charge_node(depth)
    rest = {key: value for key, value in schema.items() if key != keyword}
    others = {key: rest[key] for key in _UNIONS if key in rest}
    common = {key: value for key, value in rest.items() if key not in others}
    branches = []
    for branch in schema[keyword]:
        try:
            merged_branch = merge.intersect(common, walk.follow(branch, f"/{keyword}"), walk.budget)
        except merge.Unmergeable as error:
            walk.report_loss("", keyword, Action.NARROWED, f"an alternative is left out: {error}")
            continue
        if isinstance(merged_branch, dict) and "object" in merge.types_of(merged_branch.get("type", "object")):
            branches.append(_branch(walk, merged_branch, depth))
    if not branches:
        walk.report_loss("", keyword, Action.WIDENED, f"no alternative of {keyword} is an object")
        return rest
    union, required_sets = merge.union_of_objects(branches)
    merged_schema = {
        key: value for key, value in rest.items() if key not in {"properties", "required", "additionalProperties"}
    }
    merged_schema.update(union)
    if len(branches) == 1:
        walk.report_loss(
            "", keyword, Action.REWRITTEN, f"{keyword} with one alternative was replaced by the alternative"
        )
        return {**branches[0], **others}
    walk.report_loss(
        "",
        keyword,
        Action.DESCRIBED,
        f"{walk.target.name} does not support {keyword} at the root: its alternatives became one set of properties",
    )
    narrowed_names = merge.properties_narrowed_by_union(branches, union)
    if narrowed_names:
        names = constraint_texts.alternatives(narrowed_names)
        why = f"an alternative that does not describe {names} accepts any value for it; the merged properties do not"
        walk.report_loss("", keyword, Action.NARROWED, why)
    sets_of_arguments = _alternatives(required_sets, exactly=keyword == "oneOf")
    if sets_of_arguments:
        description = merged_schema.get("description")
        merged_schema["description"] = constraint_texts.with_notes(
            description if isinstance(description, str) else None, [sets_of_arguments]
        )
    return merged_schema


def _branch(walk: Walk, schema: JsonObject, depth: int) -> JsonObject:
    """An alternative without `allOf`, `anyOf` and `oneOf` at its root."""
    schema = walk.drop_malformed(schema, "")
    if schema.get("allOf"):
        schema = walk.drop_malformed(walk.merge_all_of(schema, ""), "")
    for keyword in _UNIONS:
        if keyword in schema:
            schema = _merge_union(walk, schema, keyword, depth + 1)
    return schema


def _alternatives(required_sets: list[list[str]], *, exactly: bool) -> str:
    distinct_sets = [list(need) for need in dict.fromkeys(tuple(need) for need in required_sets)]
    if len(distinct_sets) < 2:
        return ""
    sets = " or ".join(", ".join(need) or "none of these" for need in distinct_sets[:12])
    return f"give {'exactly one' if exactly else 'one'} of these sets of arguments: {sets}"


def _complete_object(walk: Walk, out: JsonObject, shape: JsonObject) -> None:
    out.setdefault("type", "object")
    if "properties" not in out:
        walk.report_loss("", "properties", Action.REWRITTEN, "an object needs properties, even if empty")
        out["properties"] = {}
    if walk.target.lone_any_of and not out["properties"]:
        for keyword in sorted(out.keys() - {"type", "properties", "required", "description"}):
            walk.report_loss(
                "", keyword, Action.WIDENED, f"{walk.target.name} does not support an object without properties"
            )


def _definitions(walk: Walk, out: JsonObject, root: JsonObject) -> None:
    """Write `$defs` with each referenced definition, converted once."""
    definitions_by_name: dict[str, JsonObject] = {}
    while missing_names := [name for name in walk.defs if name not in definitions_by_name]:
        for name in missing_names:
            target = walk.refs.target(walk.defs[name])
            definitions_by_name[name] = walk.convert_subschema(target, f"/$defs/{name}", 1)
    if definitions_by_name:
        out["$defs"] = definitions_by_name
    maps = (root.get("$defs"), root.get("definitions"))
    definition_names = {name for definitions in maps if isinstance(definitions, dict) for name in definitions}
    if walk.target.refs and definition_names - definitions_by_name.keys():
        walk.report_loss("", "$defs", Action.REWRITTEN, "unreferenced definitions are left out")
    elif not walk.target.refs and definition_names:
        walk.report_loss("", "$defs", Action.REWRITTEN, "definitions are inlined where they are referenced")


def _check_limits(walk: Walk, out: JsonObject) -> None:
    """Check the limits on a strict schema as a whole. Raises NotStrict."""
    counts = measure_schema(out, walk.budget)
    for limit, count, what in (
        (walk.target.max_depth, counts.depth, "levels of nesting"),
        (walk.target.max_properties, counts.properties, "properties"),
        (walk.target.max_optional, counts.optional, "optional properties"),
        (walk.target.max_unions, counts.unions, "unions"),
        (walk.target.max_enum_values, counts.values, "enumerated values"),
        (walk.target.max_long_enum, counts.long_enum, "characters of one enum's many values"),
        (walk.target.max_text, counts.text, "characters of names and enumerated values"),
    ):
        if limit is not None and count > limit:
            raise NotStrict("", "", f"the schema has {count} {what}; the limit is {limit}")
