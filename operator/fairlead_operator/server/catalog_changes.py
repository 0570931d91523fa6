"""Counts the changes of tools between two catalogs of one server. Pure."""

from __future__ import annotations

from typing import NamedTuple

from fairlead_api.documents.catalog import Catalog, ToolEntry


class ToolChanges(NamedTuple):
    """Numbers of added, removed and modified tools."""

    added: int
    removed: int
    modified: int
    """Tools whose definition, description, tags or categories changed."""


def tool_changes(previous_catalog: Catalog | None, current_catalog: Catalog) -> ToolChanges:
    """Numbers of tools added, removed and modified since `previous_catalog`; if it is None, all are added."""
    old_digests, new_digests = _digests_by_tool(previous_catalog), _digests_by_tool(current_catalog)
    modified = sum(old_digests[name] != new_digests[name] for name in old_digests.keys() & new_digests.keys())
    return ToolChanges(
        len(new_digests.keys() - old_digests.keys()), len(old_digests.keys() - new_digests.keys()), modified
    )


def _digests_by_tool(catalog: Catalog | None) -> dict[str, tuple[str, str, str | None]]:
    """Digests of the tools that a server lists, by name. They do not include the tool `sign_in`, which Fairlead shows
    until a user has signed in.
    """
    if catalog is None or catalog.sign_in:
        return {}
    return {tool.name: _digests(tool) for tool in catalog.tools}


def _digests(tool: ToolEntry) -> tuple[str, str, str | None]:
    """The values that are compared to detect a change of a tool."""
    return tool.hash, tool.search_hash, tool.description
