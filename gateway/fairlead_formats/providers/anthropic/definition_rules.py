"""Definitions of tools that Anthropic's Messages API rejects.

Pure module; the rules and their sources are in `request_rules`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fairlead_formats.providers.anthropic.request_rules import MESSAGES_RULES
from fairlead_formats.request_rules.rule import BrokenRule, SchemaCheck
from fairlead_formats.request_rules.schemas import subschemas

_PROPERTY_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_COMBINATORS: Final = ("oneOf", "allOf", "anyOf")


def definition_faults(tool: Mapping[str, Any], check_schema: SchemaCheck, index: int = 0) -> Iterator[BrokenRule]:
    """Rules that a definition breaks, except rules about its name. `index`: of the tool in the request's `tools`."""
    schema = tool.get("input_schema")
    kind = schema.get("type") if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or kind != "object":
        why = "Field required" if kind is None else "Input should be 'object'"
        yield MESSAGES_RULES.broken_rule("messages-schema-type", index=index, why=why)
        return
    schema_fault = check_schema(schema)
    if schema_fault is not None:
        yield MESSAGES_RULES.broken_rule("messages-schema-valid", index=index, why=schema_fault)
        return
    for keyword in _COMBINATORS:
        if keyword in schema:
            yield MESSAGES_RULES.broken_rule("messages-schema-root", index=index, keyword=keyword)
    for _, part in subschemas(schema):
        for name in part.get("properties") or ():
            if not _PROPERTY_NAME.fullmatch(name):
                yield MESSAGES_RULES.broken_rule("messages-property-name", index=index)
