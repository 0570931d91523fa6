"""Search of other projects over the same definitions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from search.labelled import DEPTH, Rank


def fastmcp_rank(tools: Sequence[dict[str, Any]]) -> Rank:
    """Ranking by FastMCP's own search."""
    from fastmcp.server.transforms.search import BM25SearchTransform
    from fastmcp.tools.base import Tool

    offered = [
        Tool(name=tool["id"], description=tool["description"], parameters=tool.get("inputSchema") or {})
        for tool in tools
    ]
    transform = BM25SearchTransform(max_results=DEPTH)
    search = transform._search  # noqa: SLF001 - what its tool calls; the tool itself needs a server
    return lambda query: [tool.name for tool in asyncio.run(search(offered, query))]
