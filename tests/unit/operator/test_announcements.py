"""Kubernetes events about the catalog of a server."""

from __future__ import annotations

import msgspec

from fairlead_api.documents.catalog import ToolEntry
from fairlead_operator.server.announcements import catalog_announcement
from gatewayworld import catalog, entry


def tool_entry(name: str, digest: str) -> ToolEntry:
    return msgspec.structs.replace(entry(name), hash=digest)


def test_the_event_of_a_changed_catalog_counts_new_removed_and_changed_tools() -> None:
    before = catalog("demo", "http://a/", [tool_entry("add", "1"), tool_entry("sub", "1"), tool_entry("old", "1")])
    now = catalog(
        "demo",
        "http://a/",
        [tool_entry("add", "2"), tool_entry("sub", "1"), tool_entry("new", "1"), tool_entry("more", "1")],
    )
    assert catalog_announcement(None, before).note == "3 tools"
    assert catalog_announcement(before, now).note == "4 tools: 2 new, 1 removed, 1 changed"
