"""A custom tool as a registry holds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from fairlead_tools.handlers.tool import CustomTool

Bind = Callable[[dict[str, Any]], dict[str, Any]]
"""Arguments of a call to keyword arguments of the handler. Raises UnfitArguments."""


class Prepared(msgspec.Struct, frozen=True):
    """A tool as it is called and shown."""

    name: str
    tool: CustomTool
    definition: bytes
    """Raw JSON of MCP's Tool."""
    bind: Bind | None
    """Makes keyword arguments; None: the handler takes one dictionary."""
    context: str | None
    """Parameter of the handler that takes the Context."""
    is_async: bool
