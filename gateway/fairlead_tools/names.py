"""How a tool is called on a merged endpoint, and what its id is elsewhere.

Pure module. A name depends on the server's prefix and the tool alone, never on who else is there.
"""

from __future__ import annotations

from fairlead_api.meta import ServerKey
from fairlead_formats.names import SEPARATOR


def exposed_name(prefix: str, tool: str) -> str:
    """Name of a tool on a merged endpoint; its own where the prefix is empty."""
    return tool if not prefix else f"{prefix}{SEPARATOR}{tool}"


def tool_id(server: ServerKey, tool: str) -> str:
    """Identifier that REST and the Python API show beside the exposed name."""
    return f"mcp.{server.name}.{tool}"
