"""Difference between two catalogs of one server, by its tools. Pure."""

from __future__ import annotations

from typing import NamedTuple

from fairlead_api.documents.catalog import Catalog, ToolEntry


class ToolChanges(NamedTuple):
    """Numbers of tools by what became of them."""

    added: int
    removed: int
    modified: int
    """Tools of the same name with another definition, description, tag or category."""


def tool_changes(before: Catalog | None, now: Catalog) -> ToolChanges:
    """Number of tools added, removed and modified since `before`; all are added where that is None."""
    known = {tool.name: _digests(tool) for tool in before.tools} if before is not None else {}
    found = {tool.name: _digests(tool) for tool in now.tools}
    modified = sum(known[name] != found[name] for name in known.keys() & found.keys())
    return ToolChanges(len(found.keys() - known.keys()), len(known.keys() - found.keys()), modified)


def _digests(tool: ToolEntry) -> tuple[str, str, str | None]:
    return tool.hash, tool.search_hash, tool.description
