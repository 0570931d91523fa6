"""Registry entry of a custom tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from fairlead_tools.handlers.tool import CustomTool

Bind = Callable[[dict[str, Any]], dict[str, Any]]
"""Converts the arguments of a call to the handler's keyword arguments. Raises UnfitArguments."""


class Prepared(msgspec.Struct, frozen=True):
    """Registered tool with its definition and binding."""

    name: str
    tool: CustomTool
    definition: bytes
    """Raw JSON of the tool (`Tool` in MCP's schema)."""
    bind: Bind | None
    """Converts arguments to keyword arguments; None if the handler takes one dictionary."""
    context: str | None
    """Name of the handler's parameter of type Context; None if the handler has no such parameter."""
    is_async: bool
