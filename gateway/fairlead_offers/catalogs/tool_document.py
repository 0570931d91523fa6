"""One tool in canonical form, as the REST API shows it."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from fairlead_offers.catalogs.latency import LatencyDocument
from fairlead_offers.catalogs.visible_tools import VisibleTool


class ToolDocument(msgspec.Struct, frozen=True, rename="camel"):
    """One tool in canonical form."""

    id: str
    """`mcp.{server}.{tool}`."""
    name: str
    """As exposed on `/mcp`, and as it is called."""
    server: str
    """`namespace/name`."""
    offline: bool
    """Its server cannot be reached: a call is answered with CONNECTION_LOST."""
    tags: tuple[str, ...]
    categories: tuple[str, ...]
    hash: str
    """Over the server's own definition; any byte that differs, differs here."""
    search_hash: str
    """Over name, description, schemas, tags and categories."""
    latency: LatencyDocument
    definition: Raw
    """The MCP definition, byte for byte but for the name."""


def document(entry: VisibleTool) -> ToolDocument:
    """A tool in canonical form."""
    tool = entry.entry
    return ToolDocument(
        id=entry.id,
        name=entry.name,
        server=str(entry.server),
        offline=entry.offline,
        tags=tool.tags,
        categories=tool.categories,
        hash=tool.hash,
        search_hash=tool.search_hash,
        latency=entry.latency,
        definition=Raw(entry.definition),
    )
