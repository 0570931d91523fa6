"""Shortens descriptions in tool definitions, for models with a small context window.

Pure module. Constraints of a schema are never changed. The same definition always gives the same result, so that token
sizes of results can be cached.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

MAX_TOOL_DESCRIPTION: Final = 200
"""Maximum number of characters of a tool's description."""
MAX_PARAMETER_DESCRIPTION: Final = 80
"""Maximum number of characters of a description within the schema."""
MAX_DEPTH: Final = 64
_SENTENCE_END: Final = re.compile(r"[.!?。！？](?=\s|$)|\n\s*\n")
_REMOVED_ANNOTATIONS: Final = frozenset({"title", "examples", "$comment"})
"""Annotations of JSON Schema (2020-12, section 9) that are removed, because they help people more than models."""
_NAME_MAPS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value is an object with names, not keywords, as its members."""
_DATA_KEYWORDS: Final = frozenset({"default", "const", "enum", "required", "dependentRequired"})
"""Keywords whose values are data, even if they look like schemas."""


def shorten(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """The definition with descriptions cut at the end of a sentence, and its schema without titles and examples; the
    same object if nothing changes.
    """
    shortened = dict(definition)
    description = definition.get("description")
    if isinstance(description, str):
        shortened["description"] = cut(description, MAX_TOOL_DESCRIPTION)
    schema = definition.get("inputSchema")
    if isinstance(schema, dict):
        shortened["inputSchema"] = _shorten_schema(schema, MAX_DEPTH)
    return definition if shortened == definition else shortened


def cut(text: str, limit: int) -> str:
    """The first sentences of a text within `limit` characters, or its first words if no sentence is short enough."""
    stripped_text = text.strip()
    if len(stripped_text) <= limit:
        return stripped_text
    ends = [match.end() for match in _SENTENCE_END.finditer(stripped_text, 0, limit + 1) if match.end() <= limit]
    if ends:
        return stripped_text[: ends[-1]].strip()
    head = stripped_text[: limit - 1]
    return f"{head.rsplit(None, 1)[0] if ' ' in head else head}…"


def _shorten_schema(value: Any, depth: int) -> Any:
    if depth == 0:
        return value
    if isinstance(value, list):
        return [_shorten_schema(item, depth - 1) for item in value]
    if not isinstance(value, dict):
        return value
    shortened_schema: dict[str, Any] = {}
    for key, member in value.items():
        if key in _REMOVED_ANNOTATIONS:
            continue
        if key == "description" and isinstance(member, str):
            shortened_schema[key] = cut(member, MAX_PARAMETER_DESCRIPTION)
        elif key in _NAME_MAPS and isinstance(member, dict):
            shortened_schema[key] = {name: _shorten_schema(schema, depth - 1) for name, schema in member.items()}
        elif key in _DATA_KEYWORDS:
            shortened_schema[key] = member
        else:
            shortened_schema[key] = _shorten_schema(member, depth - 1)
    return shortened_schema
