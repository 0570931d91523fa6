"""Tools of catalogs in the shape that an override of `spec.tools` gives them, made as the operator makes it."""

from __future__ import annotations

import json
from typing import Any

from fairlead_api.documents.catalog import ToolEntry
from fairlead_api.v1alpha1.mcpserver import ToolOverride
from fairlead_operator.discovery.shaped_tool import tool_shape
from gatewayworld import entry

SEARCH: dict[str, Any] = {
    "name": "search_v2",
    "description": "Searches.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "q": {"type": "string", "x-mcp-header": "Query"},
            "tenant": {"type": "string"},
            "limit": {"type": "integer"},
            "debug": {"type": "boolean"},
        },
        "required": ["q", "tenant"],
    },
}
OVERRIDE: dict[str, Any] = {
    "as": "find",
    "arguments": {
        "q": {"as": "query"},
        "tenant": {"value": "acme"},
        "limit": {"default": 5},
        "debug": {"hidden": True},
    },
}


def shaped_entry(override: dict[str, Any] = OVERRIDE, definition: dict[str, Any] = SEARCH, **more: Any) -> ToolEntry:
    """Catalog entry of a tool, as the operator makes it from the definition and the override."""
    made = ToolOverride.model_validate({"name": definition["name"], **override})
    return entry(definition, shape=tool_shape(json.dumps(definition).encode(), made), **more)
