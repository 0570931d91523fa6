"""Subschemas of a tool's schema, with their paths as errors name them. Pure module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairlead_mcp.schemas import KEYWORDS, parts

Schema = dict[str, Any]
SchemaPath = tuple[str, ...]


def subschemas(root: Schema) -> Iterator[tuple[SchemaPath, Schema]]:
    """All schemas in a schema, itself first, each with its path."""
    pending: list[tuple[SchemaPath, Schema]] = [((), root)]
    for path, schema in pending:
        yield path, schema
        if not KEYWORDS.isdisjoint(schema):
            pending += [((*path, *steps), part) for steps, part in parts(schema)]
