"""Keywords in the `arguments` of a policy's rules that JSON Schema does not have: they restrict nothing. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final

from fairlead_mcp.schemas import KEYWORDS, REFERENCES, all_schemas

_NAMED: Final = 3
"""Keywords that a message names."""
_KNOWN: Final = frozenset(
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
"""Those of the drafts 4 to 2020-12, with annotations; `x-…` is taken as well."""


def find_unknown_keywords(schema: Mapping[str, Any]) -> list[str]:
    """The first keywords of a schema, or of a schema within it, that restrict nothing, each with the one that may be
    meant.
    """
    names = {name for part in all_schemas(dict(schema)) for name in part if name not in _KNOWN}
    unknown = sorted(name for name in names if not name.startswith("x-"))
    return [_with_near(name) for name in unknown[:_NAMED]]


def _with_near(name: str) -> str:
    near = difflib.get_close_matches(name, _KNOWN, n=1)
    shown = name[:64]
    return f"{shown} (did you mean {near[0]}?)" if near else shown
