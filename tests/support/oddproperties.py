"""A tool with property names that OpenAPI and OData use, and its arguments under the names that a model sees."""

from __future__ import annotations

from typing import Any, Final

from fairlead_formats.schema.property_names import other_names, restore_names

LONG: Final = "a" * 70
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "filter[name]": {"type": "integer"},
        "$top": {"type": "integer"},
        LONG: {"type": "integer"},
        "plain": {"type": "integer"},
    },
    "required": ["filter[name]", "plain"],
}
TOOL: Final[dict[str, Any]] = {"name": "odd", "description": "Odd.", "inputSchema": SCHEMA}
ARGUMENTS: Final = {"filter[name]": 2, "$top": 40, LONG: 1, "plain": 0}


def under_other_names(arguments: Any, schema: object = SCHEMA) -> Any:
    """Arguments with the other names, which a model writes that has received these names."""
    return restore_names(arguments, {name: other for other, name in other_names(schema).items()})
