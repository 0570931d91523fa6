"""Exposed names and ids of tools. No I/O.

An exposed name depends only on the server's prefix and the tool, never on other servers, and so is stable.
"""

from __future__ import annotations

from fairlead_api.meta import ServerKey
from fairlead_formats.names import SEPARATOR


def exposed_name(prefix: str, tool: str) -> str:
    """Return the name of a tool on merged endpoints; without a prefix the tool's name at its server."""
    return tool if not prefix else f"{prefix}{SEPARATOR}{tool}"


def tool_id(server: ServerKey, tool: str) -> str:
    """Return the id of a tool in REST and the Python API."""
    return f"mcp.{server.name}.{tool}"
