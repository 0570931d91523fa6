"""Finds subschemas in a schema, and the targets of its references.

Pure module. Schemas are found by keyword, so that a property called `pattern` is not taken for one (JSON Schema 2020-12
Core, sections 10 and 11, and the older spellings of drafts 4 to 7).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

Schema: TypeAlias = dict[str, Any]

HERE: Final = ("not", "if", "then", "else", "allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies")
"""Keywords whose schemas apply to the same value."""
BELOW: Final = (
    "additionalProperties", "unevaluatedProperties", "propertyNames", "patternProperties", "items", "prefixItems",
    "additionalItems", "contains", "unevaluatedItems",
)  # fmt: skip
"""Keywords whose schemas apply to any value below; those of `properties` apply to one each."""
_NESTED: Final = frozenset(HERE) | frozenset(BELOW)
_NAMED: Final = frozenset({"properties", "$defs", "definitions"})
REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_META_SCHEMAS: Final = ("http://json-schema.org/draft-", "https://json-schema.org/draft/")


class Elsewhere(Exception):
    """A reference that leads out of the schema, or nowhere."""


def schemas_in(value: Any) -> Iterator[Schema]:
    """The schemas of one keyword: it may hold one, a list of them, or a map. `true` and `false` are left out."""
    if isinstance(value, dict):
        yield value
    elif isinstance(value, list):
        for one in value:
            if isinstance(one, dict):
                yield one


def mapped(value: Any) -> Iterator[tuple[str, Schema]]:
    """The schemas of a keyword that holds a map."""
    if isinstance(value, dict):
        for name, one in value.items():
            if isinstance(one, dict):
                yield name, one


_MAPS: Final = frozenset({"dependentSchemas", "dependencies", "patternProperties"})


def under(schema: Schema, keyword: str) -> Iterator[Schema]:
    """The schemas of a keyword of HERE or BELOW."""
    value = schema.get(keyword)
    if value is None:
        return
    if keyword in _MAPS:
        for _, one in mapped(value):
            yield one
    else:
        yield from schemas_in(value)


def every(root: Schema) -> Iterator[Schema]:
    """All schemas in a schema, itself first, those that are only defined or pointed at included; each once."""
    todo, seen = [root], {id(root)}
    while todo:
        schema = todo.pop()
        yield schema
        found: list[Schema] = []
        for keyword, value in schema.items():
            if keyword in _NESTED:
                found.extend(under(schema, keyword))
            elif keyword in _NAMED:
                found.extend(one for _, one in mapped(value))
            elif keyword in REFERENCES and isinstance(value, str) and value.startswith("#/"):
                with contextlib.suppress(Elsewhere):
                    found.append(_pointed(root, value[1:]))
        for one in found:
            if id(one) not in seen:
                seen.add(id(one))
                todo.append(one)


class References:
    """Resolves the references of one schema. Raises Elsewhere."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._named: dict[str, list[Schema]] = {}
        self._embedded = False
        for schema in every(root):
            self._embedded = self._embedded or (schema is not root and _named(schema, root) is not None)
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(schema.get(keyword), str):
                    self._named.setdefault("#" + schema[keyword], []).append(schema)
            ident = _named(schema, root)
            if ident is not None:
                self._named.setdefault(ident, []).append(schema)

    def of(self, schema: Schema) -> list[Schema]:
        """Targets of a schema's references; a dynamic one may mean any of several."""
        found: list[Schema] = []
        for keyword in REFERENCES:
            target = schema.get(keyword)
            if isinstance(target, str):
                found.extend(self._target(target))
        return found

    def _target(self, target: str) -> list[Schema]:
        if target.startswith(_META_SCHEMAS):
            return []  # comes with the library, and grows with the value alone
        base, _, fragment = target.partition("#")
        if self._embedded and not base:
            raise Elsewhere(target)  # relative to an identifier within; rare, and not worth being followed
        if fragment and not fragment.startswith("/"):
            return self._known("#" + fragment)
        starts = self._known(base) if base else [self._root]
        return [_pointed(start, fragment) for start in starts]

    def _known(self, name: str) -> list[Schema]:
        try:
            return self._named[name]
        except KeyError:
            raise Elsewhere(name) from None


def _named(schema: Schema, root: Schema) -> str | None:
    """The identifier of a schema, without its fragment (`id` in draft 4)."""
    old = isinstance(root.get("$schema"), str) and "draft-04" in root["$schema"]
    ident = schema.get("id" if old else "$id")
    return ident.partition("#")[0] or None if isinstance(ident, str) else None


def _pointed(start: Schema, pointer: str) -> Schema:
    """RFC 6901, in a URI fragment."""
    value: Any = start
    for part in pointer.split("/")[1:]:
        step = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            raise Elsewhere(pointer)
    if isinstance(value, dict):
        return value
    if isinstance(value, bool):
        return {}
    raise Elsewhere(pointer)
