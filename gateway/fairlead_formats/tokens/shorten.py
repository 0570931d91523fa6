"""Shortens descriptions in tool definitions, for models with a small context window.

Pure module. Constraints of a schema are never changed. The same definition always gives the same result, so that token
sizes of results can be cached.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

TOOL: Final = 200
"""Maximum number of characters of a tool's description."""
PARAMETER: Final = 80
"""Maximum number of characters of a description within the schema."""
MAX_DEPTH: Final = 64
_SENTENCE_END: Final = re.compile(r"[.!?。！？](?=\s|$)|\n\s*\n")
_REMOVED_ANNOTATIONS: Final = frozenset({"title", "examples", "$comment"})
"""Annotations of JSON Schema (2020-12, section 9) that are removed, because they help people more than models."""
_NAME_MAPS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value is an object with names, not keywords, as its members."""
_DATA: Final = frozenset({"default", "const", "enum", "required", "dependentRequired"})
"""Keywords whose values are data, even if they look like schemas."""


def shorten(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """The definition with descriptions cut at the end of a sentence, and its schema without titles and examples; the
    same object if nothing changes.
    """
    changed = dict(definition)
    description = definition.get("description")
    if isinstance(description, str):
        changed["description"] = cut(description, TOOL)
    schema = definition.get("inputSchema")
    if isinstance(schema, dict):
        changed["inputSchema"] = _schema(schema, MAX_DEPTH)
    return definition if changed == definition else changed


def cut(text: str, limit: int) -> str:
    """The first sentences of a text within `limit` characters, or its first words if no sentence is short enough."""
    flat = text.strip()
    if len(flat) <= limit:
        return flat
    ends = [match.end() for match in _SENTENCE_END.finditer(flat, 0, limit + 1) if match.end() <= limit]
    if ends:
        return flat[: ends[-1]].strip()
    head = flat[: limit - 1]
    return f"{head.rsplit(None, 1)[0] if ' ' in head else head}…"


def _schema(value: Any, depth: int) -> Any:
    if depth == 0:
        return value
    if isinstance(value, list):
        return [_schema(item, depth - 1) for item in value]
    if not isinstance(value, dict):
        return value
    shorter: dict[str, Any] = {}
    for key, inner in value.items():
        if key in _REMOVED_ANNOTATIONS:
            continue
        if key == "description" and isinstance(inner, str):
            shorter[key] = cut(inner, PARAMETER)
        elif key in _NAME_MAPS and isinstance(inner, dict):
            shorter[key] = {name: _schema(schema, depth - 1) for name, schema in inner.items()}
        elif key in _DATA:
            shorter[key] = inner
        else:
            shorter[key] = _schema(inner, depth - 1)
    return shorter
