"""Helpers that the envelopes of several providers share.

Pure module. The forms in `providers` follow the providers' SDKs: openai `FunctionDefinition`, `FunctionToolParam` and
`RealtimeFunctionTool`; anthropic `ToolParam`; google-genai `FunctionDeclaration`; botocore `ToolConfiguration`.
"""

from __future__ import annotations

from typing import Any

from fairlead_formats.tool_format import Definition, JsonObject
from fairlead_formats.tools.definitions import NotAFunction


def rename_tool(tool: JsonObject, name: str) -> JsonObject:
    """A copy of a tool with another value of its member `name`."""
    return {**tool, "name": name}


def lost_settings(tool: JsonObject, converted_members: set[str], path: str = "") -> tuple[tuple[str, str, str], ...]:
    """(path, keyword, why) for each member of a tool that is not in `converted_members`."""
    return tuple(
        (f"{path}/{member}", member, "a setting of the provider that MCP does not have")
        for member in tool
        if member not in converted_members
    )


def list_of(payload: Any, *members: str) -> list[Any]:
    """The list in the first of `members` that has a list; else the payload if it is a list, else a list with it."""
    if isinstance(payload, dict):
        for member in members:
            if isinstance(payload.get(member), list | tuple):
                return list(payload[member])
        return [payload]
    return list(payload) if isinstance(payload, list | tuple) else [payload]


def tools_of(payload: Any) -> list[Any]:
    """The tools of a request, of a list, or of one tool. The request holds them in `tools`."""
    return list_of(payload, "tools")


def tools_request(tools: list[Definition]) -> JsonObject:
    """Request members with the tools in `tools`."""
    return {"tools": tools}


def not_a_function_error(tool: JsonObject) -> NotAFunction:
    """The error for a tool that is not a function."""
    return NotAFunction(f"a tool of type {str(tool.get('type'))[:40]!r} is the provider's own, not a function")
