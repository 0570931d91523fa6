"""Document of a tool in the REST API: its MCP definition with id, server, hashes, tags and latency."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from fairlead_offers.catalogs.latency import LatencyDocument
from fairlead_offers.catalogs.visible_tools import VisibleTool


class ToolDocument(msgspec.Struct, frozen=True, rename="camel"):
    """Tool in canonical form."""

    id: str
    """`mcp.{server}.{tool}`."""
    name: str
    """Exposed name, by which the tool is listed on `/mcp` and called."""
    server: str
    """Server of the tool, as `namespace/name`."""
    offline: bool
    """Whether the server cannot be reached, so that calls are answered with CONNECTION_LOST."""
    tags: tuple[str, ...]
    categories: tuple[str, ...]
    hash: str
    """Hash of the definition as the server sent it, which changes with any byte."""
    search_hash: str
    """Hash of name, description, schemas, tags and categories."""
    latency: LatencyDocument
    definition: Raw
    """MCP definition, identical to the server's except for the name and what `spec.tools` changes."""
    server_bytes: int | None = None
    """Bytes of what models would read of the server's own definition: name, description and input schema as compact
    JSON. Null if `spec.tools` changes nothing of the definition.
    """


def document(entry: VisibleTool) -> ToolDocument:
    """Make the canonical form of a tool."""
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
        server_bytes=entry.server_bytes,
    )
