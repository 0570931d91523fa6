"""Detection of misspelt members in arguments, because a call could evade a policy's schema by misspelling. No I/O.

A schema for the property `limit` does not constrain a member `Limit`, but a server that ignores case reads the member
as `limit`. Such members are found at the positions in a value where the schema names the property. Names in
`patternProperties` are not compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

import msgspec

from fairlead_mcp.jsonrpc import encode
from fairlead_mcp.members import ProtectedNames, fold
from fairlead_mcp.schemas import IN_PLACE_APPLICATORS, References, Schema, all_schemas, parts

MAX_STEPS: Final = 100_000
"""Maximum number of schemas and members that are visited for one value. Visiting so many takes some tens of
milliseconds."""
MAX_LOCATIONS: Final = 1_000
"""Maximum number of cached positions of one schema."""
TOO_INTRICATE: Final = "the arguments are too complex to be compared with the names in the policy's schema"
_decode: Final = msgspec.json.Decoder().decode
_LIST_KEYWORDS: Final = ("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems")
_OTHER_MEMBER_KEYWORDS: Final = ("patternProperties", "additionalProperties", "unevaluatedProperties")


class Spelling:
    """Property names in one schema, to find misspelt members in values. The constructor raises UnresolvedReference for
    an external reference.
    """

    def __init__(self, schema: Schema, max_steps: int = MAX_STEPS) -> None:
        self._root = schema
        self._max_steps = max_steps
        self._collected_count = 0
        """Number of schemas that were collected at all positions so far. This number counts towards `max_steps` of the
        current value.
        """
        self._references = References(schema)
        spellings: dict[str, set[str]] = defaultdict(set)
        for subschema in all_schemas(schema):
            for name in _names(subschema):
                spelling = f"{encode(name).decode()}:"
                spellings[fold(spelling)].add(spelling)
        self._name_spellings = tuple(
            (folded_name, tuple(name_spellings)) for folded_name, name_spellings in spellings.items()
        )
        """Each case-folded name, with its spellings in the schema."""
        self._locations: dict[tuple[int, ...], _Location] = {}
        """Cached positions by the ids of the schemas that describe their values."""

    def errors(self, value: bytes, text: str, folded_text: str) -> str | None:
        """Return a sentence about the first member that may be read as a property of the schema; None if there is no
        such member.
        `value` is raw JSON, `text` its shortest form, and `folded_text` the case-folded `text`
        (`members.canonical_forms`).
        """
        if "\\u0000" not in text and all(
            folded_text.count(name) == sum(map(text.count, spellings)) for name, spellings in self._name_spellings
        ):
            return None  # the usual case: all names occur in their exact spelling only
        return self._walk(_decode(value))

    def _walk(self, value: Any) -> str | None:
        old_count = self._collected_count
        steps, pending = 0, [(value, self._location([self._root]))]
        while pending:
            value, location = pending.pop()
            steps += 1 + len(value)
            if steps + self._collected_count - old_count > self._max_steps:
                return TOO_INTRICATE
            if isinstance(value, dict):
                fault = location.known_names.explain_misread(value, "the object")
                if fault is not None:
                    return fault
                pairs = [(child, location.of_member(name)) for name, child in value.items()]
            else:
                pairs = [(child, location.of_items) for child in value]
            for child, schemas in pairs:
                if schemas and isinstance(child, dict | list):
                    pending.append((child, self._location(schemas)))
        return None

    def _location(self, schemas: Iterable[Schema]) -> _Location:
        key = tuple(map(id, schemas))
        location = self._locations.get(key)
        if location is None:
            location_schemas = self._applied_schemas(schemas)
            self._collected_count += len(location_schemas)
            if len(self._locations) >= MAX_LOCATIONS:
                self._locations.clear()
            location = self._locations[key] = _Location(location_schemas)
        return location

    def _applied_schemas(self, schemas: Iterable[Schema]) -> list[Schema]:
        """Return the schemas and all their subschemas that apply to the same value."""
        pending, schemas_by_id = [*schemas], dict[int, Schema]()
        while pending:
            schema = pending.pop()
            if id(schema) in schemas_by_id:
                continue
            schemas_by_id[id(schema)] = schema
            pending.extend(self._references.targets(schema))
            pending.extend(part for _, part in parts(schema, IN_PLACE_APPLICATORS))
        return [*schemas_by_id.values()]


class _Location:
    """Subschemas that apply at one position of a value."""

    __slots__ = ("_of_members", "_other_member_schemas", "_schemas", "known_names", "of_items")

    def __init__(self, schemas: list[Schema]) -> None:
        self._schemas = schemas
        self.known_names = ProtectedNames(name for schema in schemas for name in _names(schema))
        self._of_members: dict[str, list[Schema]] = {}
        self._other_member_schemas = self._schemas_under(_OTHER_MEMBER_KEYWORDS)
        self.of_items = self._schemas_under(_LIST_KEYWORDS)
        """Schemas of the items, if the value is a list."""

    def _schemas_under(self, keywords: Collection[str]) -> list[Schema]:
        return [part for schema in self._schemas for _, part in parts(schema, keywords)]

    def of_member(self, name: str) -> list[Schema]:
        """Return the schemas of a member's value."""
        if name not in self.known_names.names:
            return self._other_member_schemas
        schemas = self._of_members.get(name)
        if schemas is None:
            property_maps = (schema.get("properties") for schema in self._schemas)
            named_schemas = [
                properties[name]
                for properties in property_maps
                if isinstance(properties, dict) and isinstance(properties.get(name), dict)
            ]
            schemas = self._of_members[name] = [*named_schemas, *self._other_member_schemas]
        return schemas


def _names(schema: Schema) -> Iterator[str]:
    """Yield the members that a schema names, without its subschemas."""
    for keyword in ("properties", "dependentRequired", "dependentSchemas", "dependencies"):
        value = schema.get(keyword)
        if isinstance(value, dict):
            yield from value
            for dependent in value.values():
                yield from _texts(dependent)
    yield from _texts(schema.get("required"))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, str))
