"""Declarations of functions that Google's Gemini API rejects.

Pure module; the rules and their sources are in `request_rules`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fairlead_formats.providers.gemini.request_rules import GEMINI_RULES
from fairlead_formats.request_rules.rule import BrokenRule, SchemaCheck

_DECLARATION_MEMBERS: Final = frozenset(
    {"name", "description", "parameters", "parametersJsonSchema", "response", "responseJsonSchema", "behavior"}
)
_SCHEMA_MEMBERS: Final = frozenset(
    {
        "type",
        "format",
        "title",
        "description",
        "nullable",
        "enum",
        "properties",
        "required",
        "items",
        "anyOf",
        "default",
        "example",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "pattern",
        "propertyOrdering",
    }
)
"""Members of the message `Schema`."""
_TYPES: Final = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})
_FORMATS: Final = (None, "enum", "date-time")


def camel(name: str) -> str:
    """The camel-case name of a member, as in Google's reference. `name` may also be in snake case."""
    return name if "_" not in name else re.sub("_([a-z])", lambda match: match[1].upper(), name)


def definition_faults(
    function: Mapping[str, Any], check_schema: SchemaCheck, tool: int = 0, index: int = 0
) -> Iterator[BrokenRule]:
    """Rules that a declaration breaks, except rules about its name. `tool`: index in `tools` of the element with the
    declaration; `index`: index of the declaration in that element.
    """
    position: dict[str, object] = {"tool": tool, "index": index}
    for name in sorted(function.keys() - _DECLARATION_MEMBERS):
        yield GEMINI_RULES.broken_rule("gemini-function-member", name=name, **position)
    parameters, json_schema = function.get("parameters"), function.get("parametersJsonSchema")
    if parameters is not None and json_schema is not None:
        yield GEMINI_RULES.broken_rule("gemini-two-schemas", **position)
    if json_schema is not None:
        kind = json_schema.get("type") if isinstance(json_schema, dict) else None
        why = check_schema(json_schema) or ("the root has to be an object" if kind != "object" else None)
        if why is not None:
            yield GEMINI_RULES.broken_rule("gemini-json-schema", why=why, **position)
    if parameters is not None:
        if isinstance(parameters, dict) and not parameters.get("properties"):
            yield GEMINI_RULES.broken_rule("gemini-schema-properties", **position)
        yield from _schema_faults(position, "", parameters)


def _schema_faults(position: dict[str, object], path: str, schema: object) -> Iterator[BrokenRule]:
    schema_position: dict[str, object] = {**position, "path": path}
    if not isinstance(schema, dict):
        yield GEMINI_RULES.broken_rule("gemini-schema-value", **schema_position)
        return
    schema = {camel(member): value for member, value in schema.items()}
    for name in sorted(schema.keys() - _SCHEMA_MEMBERS):
        yield GEMINI_RULES.broken_rule("gemini-schema-member", name=name, **schema_position)
    if "anyOf" in schema and schema.keys() != {"anyOf"}:
        yield GEMINI_RULES.broken_rule("gemini-schema-any-of", **schema_position)
    if "anyOf" not in schema:
        yield from _type_faults(schema_position, schema)
    for name, part in (schema.get("properties") or {}).items():
        yield from _schema_faults(position, f"{path}.properties.{name}", part)
    for number, part in enumerate(schema.get("anyOf") or ()):
        yield from _schema_faults(position, f"{path}.any_of[{number}]", part)
    if "items" in schema:
        yield from _schema_faults(position, f"{path}.items", schema["items"])


def _type_faults(position: dict[str, object], schema: Mapping[str, Any]) -> Iterator[BrokenRule]:
    kind = str(schema.get("type")).upper()
    if kind not in _TYPES:
        yield GEMINI_RULES.broken_rule("gemini-schema-type", **position)
    if kind == "ARRAY" and "items" not in schema:
        yield GEMINI_RULES.broken_rule("gemini-schema-items", **position)
    values = schema.get("enum")
    if values is not None and (kind != "STRING" or not all(isinstance(value, str) and value for value in values)):
        yield GEMINI_RULES.broken_rule("gemini-schema-enum", **position)
    if kind == "STRING" and schema.get("format") not in _FORMATS:
        yield GEMINI_RULES.broken_rule("gemini-schema-format", **position)
    for number, name in enumerate(schema.get("required") or ()):
        if name not in (schema.get("properties") or ()):
            yield GEMINI_RULES.broken_rule("gemini-schema-required", number=number, **position)
