"""A server that stores its input, as sequential-thinking does, although its tool claims to be read-only:
`think(thought)` adds a line to the file of its command line.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mcp.server import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("remembering")
history = Path(sys.argv[1])


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def think(thought: str) -> str:
    """Add a thought to the history."""
    with history.open("a") as file:
        file.write(f"{thought}\n")
    return "thought"


server.run()
