"""Reduction of schemas that are nested deeper than a target accepts.

Pure module, for the end of a conversion to a target with `max_levels`. A property, an item and an alternative are one
level deeper than their schema; the target of a `$ref` is on level 1. Deeper parts are moved into definitions, or
described in words where the target does not support `$ref`.

Gemini refuses a whole request with "exceeds the maximum allowed nesting depth" and does not document the limit.
Declarations in wide use have up to five levels; declarations in field reports of that error have six or more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from fairlead_formats.schema import constraint_texts, shapes
from fairlead_formats.tool_format import Action
from fairlead_mcp.schemas import APPLICATORS, parts, pointer

if TYPE_CHECKING:
    from fairlead_formats.schema.walk import Walk

JsonObject = dict[str, Any]


_LEVELS: Final = APPLICATORS | {"$defs"}


def limit(walk: Walk, out: JsonObject) -> JsonObject:
    """The schema, reduced to the target's `max_levels`."""
    max_levels = walk.target.max_levels
    if max_levels is None or levels(out) <= max_levels:
        return out
    if walk.target.refs:
        return _move_to_definitions(walk, out, max_levels)
    fitted_schema = _fit(walk, out, max_levels, "")
    return out if fitted_schema is None else fitted_schema  # the root is an object, which always fits


def levels(schema: JsonObject) -> int:
    """Number of levels of a converted schema; 1 for a schema without subschemas."""
    max_level, pending = 1, [(schema, 1)]
    while pending:
        subschema, level = pending.pop()
        max_level = max(max_level, level)
        pending += [(part, 1 if steps[0] == "$defs" else level + 1) for steps, part in parts(subschema, _LEVELS)]
    return max_level


def _parts(schema: Any) -> Iterator[tuple[str, JsonObject]]:
    """(path, subschema) for each direct subschema except definitions."""
    if isinstance(schema, dict):
        yield from ((pointer(*steps), part) for steps, part in parts(schema, APPLICATORS))


def _replace_parts(schema: JsonObject, replace: Callable[[Any, str], Any]) -> JsonObject:
    """A copy of the schema with `replace(subschema, path)` in place of each subschema; other values are shared."""
    return {keyword: shapes.replace_schemas(keyword, value, replace) for keyword, value in schema.items()}


def _move_to_definitions(walk: Walk, out: JsonObject, max_levels: int) -> JsonObject:
    """The schema with its subschemas below `max_levels` moved into `$defs`."""
    defs: JsonObject = {}
    old_defs = out.get("$defs", {})

    def move(schema: JsonObject, level: int, path: str) -> JsonObject:
        def part(inner: Any, part_path: str) -> Any:
            if not isinstance(inner, dict) or next(_parts(inner), None) is None:
                return inner
            if level + 1 < max_levels:
                return move(inner, level + 1, path + part_path)
            name = next(
                candidate
                for i in range(len(defs) + 1, 20_000)
                if (candidate := f"nested_{i}") not in {*defs, *old_defs}
            )
            defs[name] = {}  # reserves the name before its subschemas get names
            walk.report_loss(
                path + part_path,
                "",
                Action.REWRITTEN,
                f"{walk.target.name} accepts {max_levels} levels of nesting: moved to $defs/{name}",
            )
            defs[name] = move(inner, 1, path + part_path)
            return {"$ref": f"#/$defs/{name}"}

        return _replace_parts(schema, part)

    fitted_schema = move({key: value for key, value in out.items() if key != "$defs"}, 1, "")
    definitions = {name: move(part, 1, f"/$defs/{name}") for name, part in old_defs.items()}
    return {**fitted_schema, "$defs": {**definitions, **defs}}


def _fit(walk: Walk, schema: JsonObject, levels_left: int, path: str) -> JsonObject | None:
    """The schema reduced to `levels_left` levels; None if no schema of its type has so few levels."""
    if next(_parts(schema), None) is None:
        return schema
    if levels_left > 1 and (fitted_schema := _fit_parts(walk, schema, levels_left, path)) is not None:
        return fitted_schema
    kind = schema.get("type")
    if kind == "object" and path:
        return _describe(walk, schema, path)
    if kind == "object":
        return _replace_parts(
            schema,
            lambda part, part_path: _fit(walk, part, levels_left - 1, part_path) or _any_array(walk, part, part_path),
        )
    return None


def _fit_parts(walk: Walk, schema: JsonObject, levels_left: int, path: str) -> JsonObject | None:
    """The schema with all subschemas reduced to `levels_left` - 1 levels; None if one of them cannot be reduced. In an
    `anyOf`, alternatives that cannot be reduced are left out if at least one remains.
    """
    loss_count = len(walk.losses)
    results_by_path = {
        part_path: _fit(walk, part, levels_left - 1, path + part_path) for part_path, part in _parts(schema)
    }
    fitted_parts = [part for part in results_by_path.values() if part is not None]
    if len(fitted_parts) == len(results_by_path):
        return _replace_parts(schema, lambda part, part_path: results_by_path.get(part_path, part))
    if "anyOf" in schema and fitted_parts:
        walk.report_loss(
            path,
            "anyOf",
            Action.NARROWED,
            f"{walk.target.name} does not support alternatives nested this deep",
        )
        return {**schema, "anyOf": fitted_parts}
    del walk.losses[loss_count:]
    return None


def _describe(walk: Walk, schema: JsonObject, path: str) -> JsonObject:
    properties = schema.get("properties", {})
    required_names = schema.get("required", ())
    names = ", ".join(
        f"{name}{'' if name in required_names else '?'} ({constraint_texts.phrase(_outline(part))})"
        for name, part in properties.items()
    )
    note = f"an object with {names}" if names else "an object"
    if len(note) > constraint_texts.MAX_SENTENCE:
        note = note[: constraint_texts.MAX_SENTENCE - 1] + "…"
    why = f"{walk.target.name} accepts {walk.target.max_levels} levels of nesting: the rest is only described"
    walk.report_loss(path, "properties", Action.DESCRIBED, why)
    description = schema.get("description")
    text = constraint_texts.with_notes(description if isinstance(description, str) else None, [note])
    out = {"type": "object", "description": text}
    return {**out, "nullable": True} if schema.get("nullable") is True else out


def _outline(part: JsonObject) -> JsonObject:
    """The keywords for a short phrase; descriptions would be too long."""
    return {key: value for key, value in part.items() if key in ("type", "enum", "const")}


def _any_array(walk: Walk, part: JsonObject, path: str) -> JsonObject:
    """The replacement for a list that is nested too deep: a list of strings."""
    walk.report_loss(
        path, "items", Action.NARROWED, f"{walk.target.name} does not support lists that are nested this deep"
    )
    return {"type": "array", "description": str(part.get("description", "")), "items": {"type": "string"}}
