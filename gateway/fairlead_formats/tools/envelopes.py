"""Parts of envelopes that several providers have alike.

Pure module. Shapes in the files of `providers` are those of the providers' own SDKs: openai `FunctionDefinition`,
`FunctionToolParam` and `RealtimeFunctionTool`; anthropic `ToolParam`; google-genai `FunctionDeclaration`; botocore
`ToolConfiguration`.
"""

from __future__ import annotations

from typing import Any

from fairlead_formats.tool_format import Definition, JsonObject
from fairlead_formats.tools.definitions import ProvidersOwn


def rename_tool(tool: JsonObject, name: str) -> JsonObject:
    """A tool whose name is a member of its own, under another name."""
    return {**tool, "name": name}


def lost_settings(tool: JsonObject, carried: set[str], at: str = "") -> tuple[tuple[str, str, str], ...]:
    """The members of a tool besides those `carried`: (path, keyword, why)."""
    return tuple(
        (f"{at}/{member}", member, "a setting of the provider's, which MCP has no place for")
        for member in tool
        if member not in carried
    )


def list_of(payload: Any, *members: str) -> list[Any]:
    """The list below the first member that holds one, the payload itself if it is a list, or a list of it."""
    if isinstance(payload, dict):
        for member in members:
            if isinstance(payload.get(member), list | tuple):
                return list(payload[member])
        return [payload]
    return list(payload) if isinstance(payload, list | tuple) else [payload]


def tools_of(payload: Any) -> list[Any]:
    """The tools of a request that has them in `tools`, of a list, or of one tool alone."""
    return list_of(payload, "tools")


def in_tools(tools: list[Definition]) -> JsonObject:
    """The members of a request that has its tools in `tools`."""
    return {"tools": tools}


def providers_own(tool: JsonObject) -> ProvidersOwn:
    """The refusal of a tool that is not a function."""
    return ProvidersOwn(f"a tool of type {str(tool.get('type'))[:40]!r} is the provider's own, not a function")
