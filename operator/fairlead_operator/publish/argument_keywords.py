"""Finds unknown JSON Schema keywords in the `arguments` of a policy's rules, because they restrict nothing. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final

from fairlead_mcp.schemas import KEYWORDS, REFERENCES, all_schemas

_MAX_NAMED: Final = 3
"""Maximum number of keywords that a message names."""
_KEYWORDS: Final = frozenset(
    {
        *KEYWORDS,
        *REFERENCES,
        *("$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary", "$comment"),
        *("type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"),
        *("maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "maxContains", "minContains"),
        *("maxProperties", "minProperties", "required", "dependentRequired", "format"),
        *("contentEncoding", "contentMediaType", "title", "description", "default", "examples"),
        *("deprecated", "readOnly", "writeOnly"),
    }
)
"""Keywords of JSON Schema drafts 4 to 2020-12, including annotations. `x-…` is allowed too."""


def find_unknown_keywords(schema: Mapping[str, Any]) -> list[str]:
    """The first unknown keywords of a schema and its subschemas, each with a suggestion if one is similar."""
    names = {name for part in all_schemas(dict(schema)) for name in part if name not in _KEYWORDS}
    unknown_names = sorted(name for name in names if not name.startswith("x-"))
    return [_with_suggestion(name) for name in unknown_names[:_MAX_NAMED]]


def _with_suggestion(name: str) -> str:
    suggestions = difflib.get_close_matches(name, _KEYWORDS, n=1)
    return f"{name[:64]} (did you mean {suggestions[0]}?)" if suggestions else name[:64]
