"""Subschemas and references of a JSON Schema: the one walk that validation, conversion and annotations share.

Pure module. Schemas are found by keyword, so that a property called `pattern` is not taken for one (JSON Schema 2020-12
Core, sections 10 and 11, and the older spellings of drafts 4 to 7). No function recurses: schemas may be deep.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

Schema: TypeAlias = dict[str, Any]

MAPS: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
"""Keywords that hold schemas by name."""
LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
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
DEFINITIONS: Final = frozenset({"$defs", "definitions"})
_NAMED: Final = MAPS | DEFINITIONS | {"dependencies"}
HELD: Final = MAPS | LISTS | SINGLES
"""Keywords whose schemas say something about the value, or about a part of it."""
MODERN: Final = HELD | DEFINITIONS | {"contentSchema"}
"""Keywords of draft 2020-12, and `definitions`, that hold schemas."""
KEYWORDS: Final = MODERN | {"additionalItems", "dependencies"}
HERE: Final = frozenset({"not", "if", "then", "else", "allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies"})
"""Keywords whose schemas apply to the same value."""
BELOW: Final = frozenset(
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
"""Keywords whose schemas apply to any value below; those of `properties` apply to one each."""
REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_META_SCHEMAS: Final = ("http://json-schema.org/draft-", "https://json-schema.org/draft/")
_MAX_INDEX_DIGITS: Final = 9


class UnresolvedReference(Exception):
    """A reference that leads out of the schema, or nowhere."""


def parts(schema: Schema, keywords: Collection[str] = KEYWORDS) -> Iterator[tuple[tuple[str, ...], Schema]]:
    """The schemas directly in a schema, each with the way to it: (keyword,), or (keyword, name or index). `true` and
    `false` are left out.
    """
    for keyword, value in schema.items():
        if keyword not in keywords:
            continue
        if isinstance(value, dict) and keyword in _NAMED:
            for name, part in value.items():
                if isinstance(part, dict):
                    yield (keyword, name), part
        elif isinstance(value, dict) and keyword not in LISTS:
            yield (keyword,), value
        elif isinstance(value, list) and (keyword in LISTS or keyword == "items"):  # a list was a tuple until 2019-09
            for index, part in enumerate(value):
                if isinstance(part, dict):
                    yield (keyword, str(index)), part


def pointer(*way: str) -> str:
    """The JSON Pointer of a way into a document (RFC 6901, section 3)."""
    return "".join(f"/{escape_step(step)}" for step in way)


def escape_step(step: str) -> str:
    """One step of a JSON Pointer."""
    return step.replace("~", "~0").replace("/", "~1") if "~" in step or "/" in step else step


def every(root: Schema) -> Iterator[Schema]:
    """All schemas in a schema, itself first, those that are only defined or pointed at included; each once."""
    todo, seen = [root], {id(root)}
    while todo:
        schema = todo.pop()
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
                todo.append(part)


def anchors(schema: Schema) -> Iterator[str]:
    """The names that a schema gives itself for a `$ref` or `$dynamicRef`."""
    for keyword in ("$anchor", "$dynamicAnchor"):
        if isinstance(schema.get(keyword), str):
            yield schema[keyword]


def follow_pointer(start: Any, pointer: str) -> Any:
    """The value at a JSON Pointer in a URI fragment (RFC 6901, section 6). Raises UnresolvedReference."""
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
    """Resolves the references of one schema. Raises UnresolvedReference."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._named: dict[str, list[Schema]] = {}
        self._embedded = False
        for schema in every(root):
            for name in anchors(schema):
                self._named.setdefault(f"#{name}", []).append(schema)
            ident = _identifier(schema, root)
            if ident is not None:
                self._embedded = self._embedded or schema is not root
                self._named.setdefault(ident, []).append(schema)

    def of(self, schema: Schema) -> list[Schema]:
        """The schemas that the references of a schema mean; a dynamic one may mean any of several."""
        targets: list[Schema] = []
        for keyword in REFERENCES:
            target = schema.get(keyword)
            if isinstance(target, str):
                targets.extend(self._target(target))
        return targets

    def _target(self, target: str) -> list[Schema]:
        if target.startswith(_META_SCHEMAS):
            return []  # comes with the library, and grows with the value alone
        base, _, fragment = target.partition("#")
        if self._embedded and not base:
            raise UnresolvedReference(target)  # relative to an identifier within; rare, and not worth being followed
        if fragment and not fragment.startswith("/"):
            return self._resolve("#" + fragment)
        starts = self._resolve(base) if base else [self._root]
        return [_schema_at(start, fragment) for start in starts]

    def _resolve(self, name: str) -> list[Schema]:
        try:
            return self._named[name]
        except KeyError:
            raise UnresolvedReference(name) from None


def _identifier(schema: Schema, root: Schema) -> str | None:
    """The identifier of a schema, without its fragment (`id` in draft 4)."""
    old = isinstance(root.get("$schema"), str) and "draft-04" in root["$schema"]
    ident = schema.get("id" if old else "$id")
    return ident.partition("#")[0] or None if isinstance(ident, str) else None


def _schema_at(start: Schema, pointer: str) -> Schema:
    value = follow_pointer(start, pointer)
    if isinstance(value, dict):
        return value
    if isinstance(value, bool):
        return {}
    raise UnresolvedReference(pointer)
