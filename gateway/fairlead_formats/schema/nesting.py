"""Schemas that are nested deeper than a target takes: deeper parts are moved into definitions, or told in words.

Pure module, for the end of a conversion to a target with `max_levels`. A level is a schema within a schema: a property,
an item, an alternative; the target of a `$ref` counts from 1 again. Gemini refuses the whole request with "exceeds the
maximum allowed nesting depth", and says nowhere how much that is: five levels are those of declarations that are in
wide use there, and the refused ones of the field reports have six or more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from fairlead_formats.schema import constraint_texts, shapes
from fairlead_formats.tool_format import Action
from fairlead_mcp.schemas import HELD, parts, pointer

if TYPE_CHECKING:
    from fairlead_formats.schema.walk import Walk

JsonObject = dict[str, Any]


_LEVELS: Final = HELD | {"$defs"}


def limit(walk: Walk, out: JsonObject) -> JsonObject:
    """The schema within `max_levels` of the target."""
    most = walk.target.max_levels
    if most is None or levels(out) <= most:
        return out
    if walk.target.refs:
        return _with_definitions(walk, out, most)
    fitting = _fit(walk, out, most, "")
    return out if fitting is None else fitting  # the root is an object: there is always a form for it


def levels(schema: JsonObject) -> int:
    """How deep a converted schema is; 1 for one that holds no other. Bounded, for conversions are."""
    deepest, pending = 1, [(schema, 1)]
    while pending:
        here, level = pending.pop()
        deepest = max(deepest, level)
        pending += [(part, 1 if way[0] == "$defs" else level + 1) for way, part in parts(here, _LEVELS)]
    return deepest


def _parts(schema: Any) -> Iterator[tuple[str, JsonObject]]:
    """(path, subschema) of all that a schema holds, but for definitions."""
    if isinstance(schema, dict):
        yield from ((pointer(*way), part) for way, part in parts(schema, HELD))


def _replace_parts(schema: JsonObject, by: Callable[[Any, str], Any]) -> JsonObject:
    """The schema with every part replaced; shares the rest with it."""
    return {keyword: shapes.replace_schemas(keyword, value, by) for keyword, value in schema.items()}


def _with_definitions(walk: Walk, out: JsonObject, most: int) -> JsonObject:
    defs: JsonObject = {}
    given = out.get("$defs", {})

    def moved(schema: JsonObject, level: int, path: str) -> JsonObject:
        def part(inner: Any, at: str) -> Any:
            if not isinstance(inner, dict) or next(_parts(inner), None) is None:
                return inner
            if level + 1 < most:
                return moved(inner, level + 1, path + at)
            name = next(
                candidate for i in range(len(defs) + 1, 20_000) if (candidate := f"nested_{i}") not in {*defs, *given}
            )
            defs[name] = {}  # its place, before those of its parts
            walk.lose(path + at, "", Action.REWRITTEN, f"{walk.target.name} takes {most} levels: moved to $defs/{name}")
            defs[name] = moved(inner, 1, path + at)
            return {"$ref": f"#/$defs/{name}"}

        return _replace_parts(schema, part)

    whole = moved({key: value for key, value in out.items() if key != "$defs"}, 1, "")
    definitions = {name: moved(part, 1, f"/$defs/{name}") for name, part in given.items()}
    return {**whole, "$defs": {**definitions, **defs}}


def _fit(walk: Walk, schema: JsonObject, room: int, path: str) -> JsonObject | None:
    """The schema in `room` levels; None where there is no form of its type that small."""
    if next(_parts(schema), None) is None:
        return schema
    if room > 1 and (whole := _whole(walk, schema, room, path)) is not None:
        return whole
    kind = schema.get("type")
    if kind == "object" and path:
        return _describe(walk, schema, path)
    if kind == "object":
        return _replace_parts(schema, lambda part, at: _fit(walk, part, room - 1, at) or _any_array(walk, part, at))
    return None


def _whole(walk: Walk, schema: JsonObject, room: int, path: str) -> JsonObject | None:
    """With all its parts, each in its place; alternatives that do not fit are left out while one does."""
    mark = len(walk.losses)
    fitted = {at: _fit(walk, part, room - 1, path + at) for at, part in _parts(schema)}
    fitting = [part for part in fitted.values() if part is not None]
    if len(fitting) == len(fitted):
        return _replace_parts(schema, lambda part, at: fitted.get(at, part))
    if "anyOf" in schema and fitting:
        walk.lose(path, "anyOf", Action.NARROWED, f"{walk.target.name} is too shallow here for every alternative")
        return {**schema, "anyOf": fitting}
    del walk.losses[mark:]
    return None


def _describe(walk: Walk, schema: JsonObject, path: str) -> JsonObject:
    properties = schema.get("properties", {})
    needed = schema.get("required", ())
    names = ", ".join(
        f"{name}{'' if name in needed else '?'} ({constraint_texts.phrase(_outline(part))})"
        for name, part in properties.items()
    )
    note = f"an object with {names}" if names else "an object"
    if len(note) > constraint_texts.MAX_SENTENCE:
        note = note[: constraint_texts.MAX_SENTENCE - 1] + "…"
    why = f"{walk.target.name} takes {walk.target.max_levels} levels of nesting: from here on the shape is only told"
    walk.lose(path, "properties", Action.DESCRIBED, why)
    own = schema.get("description")
    out = {"type": "object", "description": constraint_texts.with_notes(own if isinstance(own, str) else None, [note])}
    return {**out, "nullable": True} if schema.get("nullable") is True else out


def _outline(part: JsonObject) -> JsonObject:
    """The keywords that make a phrase: without texts, which would fill it."""
    return {key: value for key, value in part.items() if key in ("type", "enum", "const")}


def _any_array(walk: Walk, part: JsonObject, path: str) -> JsonObject:
    """An argument that is lists of lists of lists."""
    walk.lose(path, "items", Action.NARROWED, f"{walk.target.name} does not hold lists that are nested so deep")
    return {"type": "array", "description": str(part.get("description", "")), "items": {"type": "string"}}
