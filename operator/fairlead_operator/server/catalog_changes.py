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


def tool_changes(before: Catalog | None, now: Catalog) -> ToolChanges:
    """Numbers of tools added, removed and modified since `before`; if `before` is None, all are added."""
    before_digests, now_digests = _listed(before), _listed(now)
    modified = sum(before_digests[name] != now_digests[name] for name in before_digests.keys() & now_digests.keys())
    return ToolChanges(
        len(now_digests.keys() - before_digests.keys()), len(before_digests.keys() - now_digests.keys()), modified
    )


def _listed(catalog: Catalog | None) -> dict[str, tuple[str, str, str | None]]:
    """Digests of the tools that a server lists, by name; the tool `sign_in` stands in for them and does not count."""
    if catalog is None or catalog.sign_in:
        return {}
    return {tool.name: _digests(tool) for tool in catalog.tools}


def _digests(tool: ToolEntry) -> tuple[str, str, str | None]:
    """The values that are compared to detect a change of a tool."""
    return tool.hash, tool.search_hash, tool.description
