"""Calls as they stand in a message of Chat Completions. Pure module, which takes whatever a model wrote."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

TOOL_CALLS: Final = "tool_calls"
KINDS: Final = ("function", "custom")
UNFINISHED: Final = ("length", "content_filter")
"""Finish reasons after which a call may lack its end: it is not run."""


def calls_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The calls in a message; what is none is left out."""
    found = message.get(TOOL_CALLS)
    return [call for call in found if isinstance(call, dict)] if isinstance(found, list) else []


def without_calls(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message without its calls."""
    return {name: value for name, value in message.items() if name != TOOL_CALLS}


def name_of(call: Mapping[str, Any]) -> str:
    """Name of the tool that is called; empty where none is said."""
    for kind in KINDS:
        function = call.get(kind)
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            return str(function["name"])
    return ""


def is_of(call: Mapping[str, Any], names: Collection[str]) -> bool:
    """Whether one of these tools is called."""
    return name_of(call) in names
