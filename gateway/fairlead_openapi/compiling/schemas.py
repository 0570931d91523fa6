"""Schemas of a document as JSON Schema 2020-12, with the definitions that they refer to in `$defs`. No I/O.

References stay references, so that cycles are allowed and nothing is written twice. Each component is converted once
for requests and once for results, and shared by all tools of the document.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any, Final, Literal

import msgspec

from fairlead_formats.schema.nulls import with_null
from fairlead_mcp.schemas import LISTS, MAPS, SINGLES, Schema, escape_step
from fairlead_openapi.compiling.keywords import own_keywords
from fairlead_openapi.compiling.references import MAX_HOPS, DocumentReferences, pointer_name
from fairlead_openapi.compiling.report import OperationLoss
from fairlead_openapi.compiling.shapes import UnusablePart

Direction = Literal["request", "result"]
_DROPPED_FLAGS: Final[dict[Direction, str]] = {"request": "readOnly", "result": "writeOnly"}
"""Flag of properties that requests or results do not have."""
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_MAX_NAMED: Final = 5
"""Maximum number of definitions that a loss names."""
_MAX_HIDING_DEPTH: Final = 8
"""Maximum levels of `allOf` that are searched for properties that the direction lacks."""


class PortableSchema(msgspec.Struct, frozen=True):
    """A schema without its definitions."""

    schema: Schema | bool
    names: frozenset[str]
    """Definitions that the schema itself refers to."""
    losses: tuple[OperationLoss, ...] = ()
    """Losses in the schema itself; `where` is empty."""


class SchemaConverter:
    """Converter of a document's schemas for one direction."""

    def __init__(self, references: DocumentReferences, direction: Direction, *, dialect_3_0: bool) -> None:
        self._references = references
        self._flag = _DROPPED_FLAGS[direction]
        self.dialect_3_0 = dialect_3_0
        """Whether the siblings of a `$ref` are ignored, as before OpenAPI 3.1."""
        self._names: dict[str, str] = {}
        """Name of the definition by pointer."""
        self._targets: dict[str, Any] = {}
        """Schema of the document by name of the definition."""
        self._definitions: dict[str, PortableSchema] = {}
        self._sizes: dict[str, int] = {}

    def convert(self, schema: Any) -> PortableSchema:
        """Convert a schema of the document; its references are `#/$defs/NAME`. Raises nothing."""
        conversion = _Conversion(self)
        converted = conversion.convert(schema, frozenset())
        return PortableSchema(converted, frozenset(conversion.names), tuple(conversion.losses))

    def definitions(self, names: frozenset[str]) -> tuple[dict[str, Schema | bool], tuple[OperationLoss, ...]]:
        """The definitions of these names and all that those refer to, by name in order, and the losses in them."""
        open_names, reached_names = sorted(names), set(names)
        losses: list[OperationLoss] = []
        while open_names:
            definition = self._definition(open_names.pop())
            losses += definition.losses
            new_names = definition.names - reached_names
            reached_names |= new_names
            open_names += new_names
        return {name: self._definitions[name].schema for name in sorted(reached_names)}, tuple(dict.fromkeys(losses))

    def definitions_within(
        self, names: frozenset[str], max_bytes: int
    ) -> tuple[dict[str, Schema | bool], tuple[OperationLoss, ...]]:
        """Definitions like those of `definitions`, with at most about `max_bytes` of JSON, the nearest first. Further
        definitions that these refer to allow any value, which is a loss.
        """
        open_names, reached_names = deque(sorted(names)), set(names)
        definitions: dict[str, Schema | bool] = {}
        losses: list[OperationLoss] = []
        unrestricted_names: list[str] = []
        while open_names:
            name = open_names.popleft()
            definition = self._definition(name)
            size = self._size(name)
            if size > max_bytes:
                unrestricted_names.append(name)
                definitions[name] = {}
                continue
            max_bytes -= size
            definitions[name] = definition.schema
            losses += definition.losses
            open_names += sorted(definition.names - reached_names)
            reached_names |= definition.names
        if unrestricted_names:
            names_text = ", ".join(unrestricted_names[:_MAX_NAMED]) + (
                ", …" if len(unrestricted_names) > _MAX_NAMED else ""
            )
            losses.append(
                OperationLoss("size", "", f"definitions beyond the maximum size allow any value: {names_text}")
            )
        return dict(sorted(definitions.items())), tuple(dict.fromkeys(losses))

    def target_of(self, schema: Any) -> Any:
        """The schema of the document that a schema stands for: references are followed, and their siblings ignored.
        Raises UnusablePart.
        """
        for _ in range(MAX_HOPS):
            if not isinstance(schema, dict) or "$ref" not in schema:
                return schema
            schema = self._references.target(schema["$ref"])[1]
        raise UnusablePart("a `$ref` leads back to itself")

    def is_dropped(self, schema: Any, depth: int = 0) -> bool:
        """Whether a property with this schema is left out of the direction. It is also left out if only its `allOf`
        says so: in OpenAPI 3.0, siblings of a `$ref` are ignored.
        """
        if not isinstance(schema, dict) or depth > _MAX_HIDING_DEPTH:
            return False
        try:
            target = self.target_of(schema)
        except UnusablePart:
            target = schema
        if not isinstance(target, dict):
            return False
        if schema.get(self._flag) is True or target.get(self._flag) is True:
            return True
        branches = target.get("allOf")
        return isinstance(branches, list) and any(self.is_dropped(branch, depth + 1) for branch in branches)

    def dropped_names(self, schema: Any, depth: int = 0) -> frozenset[str]:
        """Properties of a schema and its `allOf` that the direction lacks."""
        if depth > _MAX_HIDING_DEPTH:
            return frozenset()
        try:
            target = self.target_of(schema)
        except UnusablePart:
            return frozenset()
        if not isinstance(target, dict):
            return frozenset()
        names: set[str] = set()
        properties = target.get("properties")
        if isinstance(properties, dict):
            names.update(name for name, value in properties.items() if self.is_dropped(value))
        branches = target.get("allOf")
        for branch in branches if isinstance(branches, list) else ():
            names |= self.dropped_names(branch, depth + 1)
        return frozenset(names)

    def refer(self, reference: Any) -> str:
        """Name of the definition that a `$ref` names. Raises UnusablePart."""
        pointer, target = self._references.target(reference)
        if not isinstance(target, dict | bool):
            raise UnusablePart(f"`$ref` {str(reference)[:200]} does not lead to a schema")
        name = self._names.get(pointer)
        if name is None:
            base_name = _UNSAFE.sub("_", pointer_name(pointer))[:100] or "schema"
            name, number = base_name, 2
            while name in self._targets:
                name, number = f"{base_name}_{number}", number + 1
            self._names[pointer] = name
            self._targets[name] = target
        return name

    def _size(self, name: str) -> int:
        """Bytes of a definition as JSON, with its name."""
        if name not in self._sizes:
            self._sizes[name] = len(name) + len(msgspec.json.encode(self._definition(name).schema))
        return self._sizes[name]

    def _definition(self, name: str) -> PortableSchema:
        if name not in self._definitions:
            self._definitions[name] = self.convert(self._targets[name])
        return self._definitions[name]


class _Conversion:
    """Conversion of one schema, which collects its references and losses."""

    def __init__(self, converter: SchemaConverter) -> None:
        self._converter = converter
        self.names: set[str] = set()
        self.losses: list[OperationLoss] = []

    def convert(self, schema: Any, dropped: frozenset[str]) -> Schema | bool:
        """Convert a schema. `dropped`: properties that an enclosing schema for the same value leaves out."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            self._lose("keyword", "a schema is not an object")
            return {}
        reference = schema.get("$ref", schema.get("$dynamicRef"))
        if reference is not None and self._converter.dialect_3_0:
            siblings = {
                name: schema[name] for name in ("description", "title", "nullable", "default") if name in schema
            }
            converted, _ = own_keywords(siblings)
        else:
            converted, invalid = own_keywords(schema)
            for keyword in invalid:
                self._lose("keyword", f"the value of `{keyword}` is invalid: {str(schema[keyword])[:100]!r}")
            self._add_parts(schema, converted, dropped)
        if reference is not None:
            self._add_reference(reference, converted)
        if schema.get("nullable") is True:
            converted = with_null(converted)
        return converted

    def _add_reference(self, reference: Any, converted: Schema) -> None:
        try:
            name = self._converter.refer(reference)
        except UnusablePart as error:
            self._lose("reference", str(error))
            return
        self.names.add(name)
        converted["$ref"] = f"#/$defs/{escape_step(name)}"

    def _add_parts(self, schema: Schema, converted: Schema, dropped: frozenset[str]) -> None:
        if "properties" in schema or "allOf" in schema or dropped:
            dropped = dropped | self._converter.dropped_names({k: v for k, v in schema.items() if k != "$ref"})
        for keyword, value in schema.items():
            if keyword in MAPS and isinstance(value, dict):
                skipped_names = dropped if keyword == "properties" else frozenset()
                converted[keyword] = {
                    name: self.convert(part, frozenset()) for name, part in value.items() if name not in skipped_names
                }
            elif keyword in LISTS and isinstance(value, list):
                names_below = dropped if keyword in ("allOf", "anyOf", "oneOf") else frozenset()
                converted[keyword] = [self.convert(part, names_below) for part in value]
                if not value:
                    del converted[keyword]
            elif keyword == "items" and isinstance(value, list):  # before draft 2020-12
                if value:
                    converted["prefixItems"] = [self.convert(part, frozenset()) for part in value]
            elif keyword in SINGLES and isinstance(value, dict | bool):
                converted[keyword] = self.convert(value, frozenset())
            elif keyword in MAPS or keyword in LISTS or keyword in SINGLES:
                self._lose("keyword", f"the value of `{keyword}` is invalid: {str(value)[:100]!r}")
        if dropped and "required" in converted:
            converted["required"] = [name for name in converted["required"] if name not in dropped]
        if not converted.get("required", True):
            del converted["required"]

    def _lose(self, kind: Literal["keyword", "reference"], message: str) -> None:
        self.losses.append(OperationLoss(kind, "", message))
