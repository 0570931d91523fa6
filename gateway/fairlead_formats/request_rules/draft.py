"""Check of a schema by JSON Schema draft 2020-12, which model providers apply to the schemas of tools.

Pure module, without the dependency of `fairlead_tools.validation.schema_draft`: this package runs without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from fairlead_formats.schema.constraint_texts import compact
from fairlead_formats.schema.shapes import SHAPES
from fairlead_mcp.schemas import MODERN, Schema, parts

_SCHEMA_HOLDERS: Final = MODERN | {"dependencies"}
_KEYWORDS_OF_OTHER_DRAFTS: Final = ("nullable", "additionalItems")


def is_count(value: Any) -> bool:
    """Whether the keywords in `COUNTS` accept a value: a whole number of at least 0."""
    return (type(value) is int and value >= 0) or (type(value) is float and value >= 0 and value.is_integer())


def _is_map(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(part, dict | bool) for part in value.values())


COUNTS: Final = (
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minContains",
    "maxContains",
)
"""Keywords whose values are counts."""
_VALUES: Final[Mapping[str, Callable[[Any], bool]]] = {
    **{keyword: check for keyword, check in SHAPES.items() if keyword not in _KEYWORDS_OF_OTHER_DRAFTS},
    "enum": lambda value: isinstance(value, list),
    "items": lambda value: isinstance(value, dict | bool),
    **dict.fromkeys(("$defs", "definitions"), _is_map),
    **dict.fromkeys(COUNTS, is_count),
}
"""Whether the draft's meta-schema takes a value, by keyword. All values of other keywords are valid."""


def draft_fault(schema: object) -> str | None:
    """The first error of a schema by draft 2020-12, even if it names another draft; None for a valid schema."""
    if not isinstance(schema, dict):
        return None if isinstance(schema, bool) else "a schema is an object or a boolean"
    pending: list[tuple[tuple[str, ...], Schema]] = [((), schema)]
    checks, holds_no_schema = _VALUES, _SCHEMA_HOLDERS.isdisjoint
    for path, part in pending:
        for keyword, value in part.items():
            check = checks.get(keyword)
            if check is not None and not check(value):
                pointer = "/".join((*path, keyword))
                return f"{compact(value)} is not a valid value of {keyword} at {pointer}"
        if not holds_no_schema(part):
            pending += [((*path, *steps), subschema) for steps, subschema in parts(part, _SCHEMA_HOLDERS)]
    return None
