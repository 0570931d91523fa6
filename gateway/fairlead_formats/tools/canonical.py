"""MCP as a format among the others: what goes in comes out.

Pure module. Definitions are checked for what every conversion needs, and are otherwise left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairlead_formats.names import Names
from fairlead_formats.tools.definitions import name_of
from fairlead_formats.tools.format import DEFAULT, Action, Converted, Definition, JsonObject, Loss, Options, Read


class McpFormat:
    """MCP's own form."""

    def __init__(self, name: str, aliases: tuple[str, ...]) -> None:
        self.name = name
        self.title = "MCP"
        self.aliases = aliases
        self.max_tools: int | None = None

    def convert(self, tools: Sequence[Definition], options: Options = DEFAULT, names: Names | None = None) -> Converted:
        read = self.read(list(tools))
        kept: dict[str, JsonObject] = {}
        report = list(read.report)
        for tool in read.tools:
            if kept.setdefault(tool["name"], tool) is not tool:
                report.append(Loss(tool["name"], "/name", "name", Action.REFUSED, "another tool has this name"))
        return Converted(tuple(kept.values()), names or Names.unchanged(kept), tuple(report))

    def read(self, payload: object) -> Read:
        tools: list[JsonObject] = []
        report: list[Loss] = []
        for position, tool in enumerate(_tools(payload)):
            if isinstance(tool, dict) and name_of(tool) and isinstance(tool.get("inputSchema", {}), dict):
                tools.append(tool)
            else:
                why = "a tool is an object with a name and an inputSchema"
                report.append(Loss(f"#{position}", "", "", Action.REFUSED, why))
        return Read(tuple(tools), tuple(report))

    def request(self, tools: Sequence[Definition]) -> JsonObject:
        """As the result of `tools/list`."""
        return {"tools": list(tools)}


def _tools(payload: Any) -> list[Any]:
    if isinstance(payload, dict):
        return payload["tools"] if isinstance(payload.get("tools"), list) else [payload]
    return payload if isinstance(payload, list) else [payload]
