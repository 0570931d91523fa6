"""Exposed names and ids of tools. No I/O.

An exposed name depends only on the server's prefix and the tool's name, so it stays the same when other servers change.
"""

from __future__ import annotations

from fairlead_api.meta import ServerKey
from fairlead_formats.names import SEPARATOR


def exposed_name(prefix: str, tool: str) -> str:
    """Return the name of a tool on merged endpoints. Without a prefix, this is the tool's name at its server."""
    return tool if not prefix else f"{prefix}{SEPARATOR}{tool}"


def tool_id(server: ServerKey, tool: str) -> str:
    """Return the id of a tool in REST and the Python API."""
    return f"mcp.{server.name}.{tool}"
