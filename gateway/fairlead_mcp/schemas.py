"""Traversal of JSON Schemas: subschemas and references. No I/O.

Subschemas are found by keyword, so that a property named `pattern` is not read as a keyword (JSON Schema 2020-12 Core,
sections 10 and 11, and the keywords of drafts 4 to 7). No function recurses, as schemas may be nested deeply.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

Schema: TypeAlias = dict[str, Any]

MAPS: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
"""Keywords whose value maps names to schemas."""
LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
"""Keywords whose value is a list of schemas."""
SINGLES: Final = frozenset(
    {
        "items",
        "additionalProperties",
        "not",
        "if",
        "then",
        "else",
        "contains",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""Keywords whose value is one schema."""
DEFINITIONS: Final = frozenset({"$defs", "definitions"})
"""Keywords whose schemas apply only where a reference names them."""
_SCHEMAS_BY_NAME: Final = MAPS | DEFINITIONS | {"dependencies"}
APPLICATORS: Final = MAPS | LISTS | SINGLES
"""Keywords whose subschemas apply to the value or to a part of it (applicators)."""
MODERN: Final = APPLICATORS | DEFINITIONS | {"contentSchema"}
"""Keywords of draft 2020-12, and `definitions`, that contain schemas."""
KEYWORDS: Final = MODERN | {"additionalItems", "dependencies"}
"""Keywords of any draft that contain schemas."""
IN_PLACE_APPLICATORS: Final = frozenset(
    {"not", "if", "then", "else", "allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies"}
)
"""Keywords whose subschemas apply to the value itself."""
CHILD_APPLICATORS: Final = frozenset(
    {
        "additionalProperties",
        "unevaluatedProperties",
        "propertyNames",
        "patternProperties",
        "items",
        "prefixItems",
        "additionalItems",
        "contains",
        "unevaluatedItems",
    }
)
"""Keywords whose subschemas may apply to several parts of the value. `properties` is not among them, as each of its
subschemas applies to one part.
"""
REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
"""Keywords that name another schema, which applies to the value too."""
_META_SCHEMAS: Final = ("http://json-schema.org/draft-", "https://json-schema.org/draft/")
_MAX_INDEX_DIGITS: Final = 9


class UnresolvedReference(Exception):
    """A reference has no target in the schema."""


def parts(schema: Schema, keywords: Collection[str] = KEYWORDS) -> Iterator[tuple[tuple[str, ...], Schema]]:
    """Yield the direct subschemas of a schema with their paths: (keyword,), or (keyword, name or index).

    The schemas `true` and `false` are left out.
    """
    for keyword, value in schema.items():
        if keyword not in keywords:
            continue
        if isinstance(value, dict) and keyword in _SCHEMAS_BY_NAME:
            for name, part in value.items():
                if isinstance(part, dict):
                    yield (keyword, name), part
        elif isinstance(value, dict) and keyword not in LISTS:
            yield (keyword,), value
        elif isinstance(value, list) and (keyword in LISTS or keyword == "items"):  # `items`: until draft 2019-09
            for index, part in enumerate(value):
                if isinstance(part, dict):
                    yield (keyword, str(index)), part


def pointer(*steps: str) -> str:
    """Make the JSON Pointer of a path (RFC 6901, section 3)."""
    return "".join(f"/{escape_step(step)}" for step in steps)


def escape_step(step: str) -> str:
    """Escape one reference token of a JSON Pointer."""
    return step.replace("~", "~0").replace("/", "~1") if "~" in step or "/" in step else step


def all_schemas(root: Schema) -> Iterator[Schema]:
    """Yield a schema and all schemas within it once, including definitions and targets of references."""
    pending, seen = [root], {id(root)}
    while pending:
        schema = pending.pop()
        yield schema
        schemas = [part for _, part in parts(schema)]
        for keyword in REFERENCES:
            target = schema.get(keyword)
            if isinstance(target, str) and target.startswith("#/"):
                with contextlib.suppress(UnresolvedReference):
                    schemas.append(_schema_at(root, target[1:]))
        for part in schemas:
            if id(part) not in seen:
                seen.add(id(part))
                pending.append(part)


def anchors(schema: Schema) -> Iterator[str]:
    """Yield the anchors of a schema, which a `$ref` or `$dynamicRef` may name."""
    for keyword in ("$anchor", "$dynamicAnchor"):
        if isinstance(schema.get(keyword), str):
            yield schema[keyword]


def follow_pointer(start: Any, pointer: str) -> Any:
    """Return the value at a JSON Pointer in a URI fragment (RFC 6901, section 6). Raises UnresolvedReference."""
    value = start
    for part in pointer.split("/")[1:]:
        step = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and len(step) <= _MAX_INDEX_DIGITS and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            raise UnresolvedReference(pointer)
    return value


class References:
    """Resolver of the references within one schema. Raises UnresolvedReference."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._schemas_by_name: dict[str, list[Schema]] = {}
        self._has_embedded_schemas = False
        for schema in all_schemas(root):
            for name in anchors(schema):
                self._schemas_by_name.setdefault(f"#{name}", []).append(schema)
            ident = _identifier(schema, root)
            if ident is not None:
                self._has_embedded_schemas = self._has_embedded_schemas or schema is not root
                self._schemas_by_name.setdefault(ident, []).append(schema)

    def targets(self, schema: Schema) -> list[Schema]:
        """Return the targets of a schema's references; a dynamic reference may have several."""
        targets: list[Schema] = []
        for keyword in REFERENCES:
            target = schema.get(keyword)
            if isinstance(target, str):
                targets.extend(self._target(target))
        return targets

    def _target(self, target: str) -> list[Schema]:
        if target.startswith(_META_SCHEMAS):
            return []  # the validator has the meta-schemas, whose cost is linear in the value
        base, _, fragment = target.partition("#")
        if self._has_embedded_schemas and not base:
            raise UnresolvedReference(target)  # may be relative to an embedded identifier; rare, so not supported
        if fragment and not fragment.startswith("/"):
            return self._resolve("#" + fragment)
        starts = self._resolve(base) if base else [self._root]
        return [_schema_at(start, fragment) for start in starts]

    def _resolve(self, name: str) -> list[Schema]:
        try:
            return self._schemas_by_name[name]
        except KeyError:
            raise UnresolvedReference(name) from None


def _identifier(schema: Schema, root: Schema) -> str | None:
    """Return the identifier of a schema (`$id`, in draft 4 `id`), without fragment."""
    is_draft_4 = isinstance(root.get("$schema"), str) and "draft-04" in root["$schema"]
    ident = schema.get("id" if is_draft_4 else "$id")
    return ident.partition("#")[0] or None if isinstance(ident, str) else None


def _schema_at(start: Schema, pointer: str) -> Schema:
    value = follow_pointer(start, pointer)
    if isinstance(value, dict):
        return value
    if isinstance(value, bool):
        return {}
    raise UnresolvedReference(pointer)
