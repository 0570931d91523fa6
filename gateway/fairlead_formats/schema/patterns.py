"""Conversion steps for single values: enumerations, constants, patterns, formats, bounds, tuples.

Pure module; `steps` explains what a step is.
"""

from __future__ import annotations

from math import ceil, floor
from typing import TYPE_CHECKING, Any

from fairlead_formats.schema import constraint_texts
from fairlead_formats.schema.dialects import pattern_fault
from fairlead_formats.schema.merge import type_of
from fairlead_formats.tool_format import Action
from fairlead_mcp.schemas import pointer

if TYPE_CHECKING:
    from fairlead_formats.schema.walk import Walk

JsonObject = dict[str, Any]


def write_enum(walk: Walk, out: JsonObject, schema: JsonObject, path: str, notes: list[str]) -> None:
    """Write `enum` with distinct values of the schema's type. Some targets support only strings."""
    values = schema["enum"]
    kinds = schema.get("type")
    valid_values = _values_of_kinds(values, kinds)
    if len(valid_values) != len(values):
        walk.report_loss(path, "enum", Action.REWRITTEN, "values of another type and repeated values are left out")
    if not valid_values:
        walk.report_loss(path, "enum", Action.DESCRIBED, "no value is of the schema's type")
        notes.append(constraint_texts.describe("enum", values))
    elif walk.target.string_enums:
        _strings(walk, out, schema, valid_values, path, notes)
    else:
        out["enum"] = valid_values if len(valid_values) != len(values) else values


def _values_of_kinds(values: list[Any], kinds: Any) -> list[Any]:
    allowed_kinds = None if kinds is None else set(kinds if isinstance(kinds, list) else [kinds])
    distinct_values: dict[tuple[str, str], Any] = {}
    for value in values:
        kind = type_of(value)
        if allowed_kinds is None or kind in allowed_kinds or _is_allowed_number(value, kind, allowed_kinds):
            distinct_values.setdefault((kind, constraint_texts.compact(value)), value)
    return list(distinct_values.values())


def _is_allowed_number(value: Any, kind: str, allowed_kinds: set[str]) -> bool:
    if kind == "integer":
        return "number" in allowed_kinds
    return kind == "number" and "integer" in allowed_kinds and float(value).is_integer()


def _strings(walk: Walk, out: JsonObject, schema: JsonObject, values: list[Any], path: str, notes: list[str]) -> None:
    texts = [value for value in values if isinstance(value, str) and value]
    if None in values and schema.get("type") != "null":
        out["nullable"] = True
    other_values = [value for value in values if value is not None and not (isinstance(value, str) and value)]
    if texts and not other_values:
        out["enum"] = texts
        if len(texts) != len(values):
            walk.report_loss(path, "enum", Action.REWRITTEN, "null among the values became nullable")
    elif _are_successive(other_values) and not texts and schema.get("type") in ("integer", None):
        out["minimum"], out["maximum"] = min(other_values), max(other_values)
        walk.report_loss(path, "enum", Action.REWRITTEN, "successive integers became a range")
    elif values != [None]:
        walk.report_loss(path, "enum", Action.DESCRIBED, f"{walk.target.name} supports only enums of non-empty strings")
        notes.append(constraint_texts.describe("enum", values))


def _are_successive(values: list[Any]) -> bool:
    """Whether the values are integers without a gap between them."""
    return (
        bool(values)
        and all(type(value) is int for value in values)
        and max(values) - min(values) == len(set(values)) - 1
    )


def write_const(walk: Walk, out: JsonObject, schema: JsonObject, path: str, notes: list[str]) -> None:
    """Write `const` as an `enum` with one value."""
    if "enum" in schema:
        walk.report_loss(path, "const", Action.DESCRIBED, "a const next to an enum is only described")
        notes.append(constraint_texts.describe("const", schema["const"]))
        return
    walk.report_loss(path, "const", Action.REWRITTEN, "const became an enum of one value")
    write_enum(walk, out, {**schema, "enum": [schema["const"]]}, path, notes)


def write_nullable(walk: Walk, out: JsonObject, schema: JsonObject, path: str, notes: list[str]) -> None:
    """Write `nullable`, which an earlier step put in place of a union with null."""
    out["nullable"] = schema["nullable"]


def write_pattern(walk: Walk, out: JsonObject, schema: JsonObject, path: str, notes: list[str]) -> None:
    """Write `pattern` if it is a regular expression in the target's dialect."""
    text = schema["pattern"]
    why = _fault(walk, text)
    if why is None:
        out["pattern"] = text
        return
    walk.report_loss(path, "pattern", Action.DESCRIBED, why)
    notes.append(constraint_texts.describe("pattern", text))


def write_pattern_properties(walk: Walk, out: JsonObject, schema: JsonObject, path: str, notes: list[str]) -> None:
    """Write the entries of `patternProperties` whose name is a regular expression in the target's dialect."""
    value = schema["patternProperties"]
    faults = {name: why for name in value if (why := _fault(walk, name))}
    for name, why in faults.items():
        walk.report_loss(path + pointer("patternProperties", name), "patternProperties", Action.DESCRIBED, why)
        notes.append(constraint_texts.describe("patternProperties", {name: value[name]}))
    depth = walk.depth + 1
    converted = {
        name: walk.convert_subschema(part, path + pointer("patternProperties", name), depth)
        for name, part in value.items()
        if name not in faults
    }
    if converted or not value:
        out["patternProperties"] = converted


def _fault(walk: Walk, text: str) -> str | None:
    return pattern_fault(text, walk.target.dialect, lookaround=walk.target.lookaround)


def write_format(walk: Walk, out: JsonObject, schema: JsonObject, path: str, notes: list[str]) -> None:
    """Write `format` if the target supports its value."""
    formats = walk.target.formats
    if formats is None or schema["format"] in formats:
        out["format"] = schema["format"]
        return
    walk.report_loss(
        path, "format", Action.DESCRIBED, f"{walk.target.name} does not support the format {schema['format'][:80]}"
    )
    notes.append(constraint_texts.describe("format", schema["format"]))


def write_min_items(walk: Walk, out: JsonObject, schema: JsonObject, path: str, notes: list[str]) -> None:
    """Write `minItems`, at most the target's maximum."""
    maximum, min_items = walk.target.min_items, schema["minItems"]
    if maximum is None or min_items <= maximum:
        out["minItems"] = min_items
        return
    walk.report_loss(path, "minItems", Action.DESCRIBED, f"minItems is at most {maximum} for {walk.target.name}")
    out["minItems"] = maximum
    notes.append(constraint_texts.describe("minItems", min_items))


def write_exclusive_minimum(walk: Walk, out: JsonObject, schema: JsonObject, path: str, notes: list[str]) -> None:
    """Write `exclusiveMinimum` as `minimum`: exact for integers; for other numbers the exclusion is described."""
    bound = _inclusive_bound(walk, schema, path, notes, "exclusiveMinimum", 1)
    out["minimum"] = max(bound, schema.get("minimum", bound))


def write_exclusive_maximum(walk: Walk, out: JsonObject, schema: JsonObject, path: str, notes: list[str]) -> None:
    """Write `exclusiveMaximum` as `maximum`: exact for integers; for other numbers the exclusion is described."""
    bound = _inclusive_bound(walk, schema, path, notes, "exclusiveMaximum", -1)
    out["maximum"] = min(bound, schema.get("maximum", bound))


def write_bounds(walk: Walk, out: JsonObject, schema: JsonObject, path: str, notes: list[str]) -> None:
    """Write `minimum` and `maximum`, unless the step of an exclusive bound has written them."""
    for keyword in ("minimum", "maximum"):
        if keyword in schema:
            out.setdefault(keyword, schema[keyword])


def _inclusive_bound(walk: Walk, schema: JsonObject, path: str, notes: list[str], keyword: str, step: int) -> Any:
    bound = schema[keyword]
    if schema.get("type") == "integer":
        walk.report_loss(path, keyword, Action.REWRITTEN, f"{keyword} of an integer became inclusive")
        rounded_bound = ceil(bound) if step > 0 else floor(bound)
        return rounded_bound + step if rounded_bound == bound else rounded_bound
    walk.report_loss(
        path,
        keyword,
        Action.DESCRIBED,
        f"{walk.target.name} does not support {keyword}: the bound itself is accepted, too",
    )
    notes.append(constraint_texts.describe(keyword, bound))
    return bound


def write_prefix_items(walk: Walk, out: JsonObject, schema: JsonObject, path: str, notes: list[str]) -> None:
    """Write `prefixItems` as `items`, with which each item may match any of its schemas. The order is described."""
    parts = schema["prefixItems"]
    rest = schema.get("items")
    walk.report_loss(path, "prefixItems", Action.DESCRIBED, f"{walk.target.name} does not support tuples")
    notes.append(constraint_texts.describe("prefixItems", parts))
    item_schemas = [*parts, rest] if isinstance(rest, dict) else parts
    distinct_schemas = [part for i, part in enumerate(item_schemas) if part not in item_schemas[:i]]
    union = distinct_schemas[0] if len(distinct_schemas) == 1 else {"anyOf": distinct_schemas}
    if rest is None or rest is True:
        union = True
    out["items"] = walk.convert_subschema(union, f"{path}/prefixItems", walk.depth + 1)
    if rest is False:
        out["maxItems"] = min(len(parts), schema.get("maxItems", len(parts)))
