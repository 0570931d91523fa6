"""Members of a value that a server may read as a property which a schema names.

Pure module. A schema's `limit` says nothing about `Limit`, which a server that ignores case takes for it. So whatever
passes for a name of the schema, at the place the schema names it for, is found here. Names in `patternProperties` are
patterns, and compared by nobody but the checker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

import msgspec

from fairlead_mcp.jsonrpc import encode
from fairlead_mcp.members import Known, fold
from fairlead_mcp.schemas import HERE, References, Schema, every, parts

MAX_STEPS: Final = 100_000
"""Schemas and members that are looked at for one value: some tens of milliseconds at most."""
MAX_PLACES: Final = 1_000
"""Remembered for one schema."""
TOO_INTRICATE: Final = "they are too intricate to be compared with the names of the policy"
_decode: Final = msgspec.json.Decoder().decode
_OF_LISTS: Final = ("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems")
_OF_THE_REST: Final = ("patternProperties", "additionalProperties", "unevaluatedProperties")


class Spelling:
    """The names in one schema. Raises UnresolvedReference for a reference that leads out of it."""

    def __init__(self, schema: Schema, max_steps: int = MAX_STEPS) -> None:
        self._root = schema
        self._max_steps = max_steps
        self._gathered = 0
        """Schemas of all places so far."""
        self._references = References(schema)
        counted: dict[str, set[str]] = defaultdict(set)
        for subschema in every(schema):
            for name in _names(subschema):
                written = f"{encode(name).decode()}:"
                counted[fold(written)].add(written)
        self._counted = tuple((alike, tuple(exact)) for alike, exact in counted.items())
        self._places: dict[tuple[int, ...], _Location] = {}

    def wrong(self, value: bytes, text: str, alike: str) -> str | None:
        """A sentence about the first member that may be taken for a name of the schema; None without any.

        `value` is raw JSON, `text` its shortest form, `alike` that without regard to case.
        """
        if "\\u0000" not in text and all(
            alike.count(name) == sum(map(text.count, exact)) for name, exact in self._counted
        ):
            return None  # as nearly always: no name is there in another spelling
        return self._walk(_decode(value))

    def _walk(self, value: Any) -> str | None:
        before = self._gathered
        steps, todo = 0, [(value, self._location([self._root]))]
        while todo:
            value, location = todo.pop()
            steps += 1 + len(value)
            if steps + self._gathered - before > self._max_steps:
                return TOO_INTRICATE
            if isinstance(value, dict):
                wrong = location.known_names.misread(value, "the object")
                if wrong is not None:
                    return wrong
                pairs = [(child, location.of_member(name)) for name, child in value.items()]
            else:
                pairs = [(child, location.of_items) for child in value]
            for child, schemas in pairs:
                if schemas and isinstance(child, dict | list):
                    todo.append((child, self._location(schemas)))
        return None

    def _location(self, schemas: Iterable[Schema]) -> _Location:
        key = tuple(map(id, schemas))
        location = self._places.get(key)
        if location is None:
            applied = self._applied_schemas(schemas)
            self._gathered += len(applied)
            if len(self._places) >= MAX_PLACES:
                self._places.clear()
            location = self._places[key] = _Location(applied)
        return location

    def _applied_schemas(self, schemas: Iterable[Schema]) -> list[Schema]:
        """These, and all that they apply to the same value."""
        todo, schemas_by_id = [*schemas], dict[int, Schema]()
        while todo:
            schema = todo.pop()
            if id(schema) in schemas_by_id:
                continue
            schemas_by_id[id(schema)] = schema
            todo.extend(self._references.of(schema))
            todo.extend(part for _, part in parts(schema, HERE))
        return [*schemas_by_id.values()]


class _Location:
    """Subschemas that apply to the values at one place."""

    __slots__ = ("_applied", "_of_members", "_rest", "known_names", "of_items")

    def __init__(self, applied: list[Schema]) -> None:
        self._applied = applied
        self.known_names = Known(name for schema in applied for name in _names(schema))
        self._of_members: dict[str, list[Schema]] = {}
        self._rest = self._under(_OF_THE_REST)
        self.of_items = self._under(_OF_LISTS)
        """The schemas of the values in a list."""

    def _under(self, keywords: Collection[str]) -> list[Schema]:
        return [part for schema in self._applied for _, part in parts(schema, keywords)]

    def of_member(self, name: str) -> list[Schema]:
        """The schemas of a member's value."""
        if name not in self.known_names.names:
            return self._rest
        schemas = self._of_members.get(name)
        if schemas is None:
            named = (schema.get("properties") for schema in self._applied)
            own = [
                properties[name]
                for properties in named
                if isinstance(properties, dict) and isinstance(properties.get(name), dict)
            ]
            schemas = self._of_members[name] = [*own, *self._rest]
        return schemas


def _names(schema: Schema) -> Iterator[str]:
    """The members that a schema names at its own place."""
    for keyword in ("properties", "dependentRequired", "dependentSchemas", "dependencies"):
        value = schema.get(keyword)
        if isinstance(value, dict):
            yield from value
            for more in value.values():
                yield from _texts(more)
    yield from _texts(schema.get("required"))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, str))
