"""Definitions of functions that OpenAI's Responses and Realtime reject.

Pure module; the rules and their sources are in `request_rules` and `realtime_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fairlead_formats.providers.openai_chat.definition_rules import function_definition_faults, function_faults
from fairlead_formats.providers.openai_responses.realtime_rules import REALTIME_RULES
from fairlead_formats.providers.openai_responses.request_rules import RESPONSES_RULES
from fairlead_formats.request_rules.rule import BrokenRule, SchemaCheck

_REALTIME_MEMBERS: Final = frozenset({"type", "name", "description", "parameters"})
"""Members of a function in Realtime."""
_MAX_DESCRIPTION: Final = 1024
"""Maximum number of characters of a description in Realtime."""


def responses_faults(function: Mapping[str, Any], check_schema: SchemaCheck) -> Iterator[BrokenRule]:
    """Rules of Responses that a function breaks, except rules about its name."""
    return function_faults(RESPONSES_RULES, function, check_schema)


def realtime_faults(function: Mapping[str, Any], check_schema: SchemaCheck) -> Iterator[BrokenRule]:
    """Rules that a function for Realtime breaks, except rules about its name: Realtime's own rules, and Chat
    Completions' rules about schemas.
    """
    yield from realtime_function_faults(function)
    yield from function_definition_faults(function, check_schema)


def realtime_function_faults(function: Mapping[str, Any], index: int = 0) -> Iterator[BrokenRule]:
    """Realtime's own rules that a function breaks, except rules about its name. `index`: of the function in `tools`."""
    for member in sorted(function.keys() - _REALTIME_MEMBERS):
        yield REALTIME_RULES.broken_rule("realtime-tool-member", index=index, name=member)
    description, schema = function.get("description") or "", function.get("parameters") or {}
    if len(description) > _MAX_DESCRIPTION:
        yield REALTIME_RULES.broken_rule("realtime-tool-description", index=index, length=len(description))
    if "parameters" in function and schema.get("type") != "object":
        name, kind = str(function.get("name")), schema.get("type")
        yield REALTIME_RULES.broken_rule("realtime-schema-root", index=index, name=name, type=kind)
