"""The caller's own tools: read from any format, matched with ours, and kept apart, for the caller runs them itself.

Used by the resources `tools`, `plans` and `toolcalls`, so that all three agree on whose a tool is. **A definition that
goes by the name, the safe name or the id of a visible tool means that tool**: callers send back all that they were
given. The registry's definition is offered then and the gateway runs it; `matched` says so. Any other is the caller's.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead_gateway.formats import registry
from fairlead_gateway.formats.definitions import name_of
from fairlead_gateway.formats.format import Action, JsonObject, Loss
from fairlead_gateway.formats.names import Names
from fairlead_gateway.formats.schema.nulls import un_null
from fairlead_gateway.rest.plane import format_called
from fairlead_gateway.rest.shelf import Entry, Shelf


class Provided(msgspec.Struct, frozen=True):
    """What of a caller's definitions is its own."""

    tools: tuple[JsonObject, ...] = ()
    """In MCP's form, each name once, the first of it."""
    matched: dict[str, str] = {}
    """Name of a definition that means one of our tools, to that tool's exposed name."""
    report: tuple[Loss, ...] = ()
    names: Names = Names()
    """Of the visible tools and the caller's."""

    def find(self, name: str) -> JsonObject | None:
        """The caller's tool of that name, as it wrote it or as a provider shows it."""
        original = self.names.original(name) or name
        return next((tool for tool in self.tools if tool["name"] in (name, original)), None)


def provided(payload: object, format_name: str, shelf: Shelf) -> Provided:
    """Sort the tools of a list, of one tool or of a request (decoded JSON; None: there are none). Raises Problem for an
    unknown format; a definition that cannot be read is refused in the report.
    """
    if payload is None:
        return Provided(names=shelf.names)
    read = format_called(format_name).read(payload)
    own: dict[str, JsonObject] = {}
    matched: dict[str, str] = {}
    report = list(read.report)
    for tool in read.tools:
        name = name_of(tool)
        entry = shelf.find(shelf.names.original(name) or name)
        if entry is None:
            own.setdefault(name, tool)
        elif name not in matched:
            matched[name] = entry.name
            report += _other(tool, name, entry)
    return Provided(tuple(own.values()), matched, tuple(report), Names.beside(shelf.names, own))


def arguments_for(tool: JsonObject, arguments: Any) -> Any:
    """What the caller runs its tool with: without the nulls that strict mode asks for."""
    schema = tool.get("inputSchema")
    return un_null(arguments, schema) if isinstance(schema, dict) and isinstance(arguments, dict) else arguments


def offered_names(format_name: str, shelf: Shelf, own: Provided) -> Names:
    """Names of all tools that an offer may hold; MCP takes any name."""
    if format_name != registry.MCP:
        return own.names
    return Names.unchanged([*shelf.by_name, *(tool["name"] for tool in own.tools)])


def _other(tool: JsonObject, name: str, entry: Entry) -> list[Loss]:
    """A line of the report where the caller's tool takes other arguments than ours."""
    if _arguments(tool) == _arguments(entry.decoded):
        return []
    why = f"{entry.name} of the gateway has this name, is offered in its place and takes other arguments"
    return [Loss(name, "", "name", Action.DROPPED, why)]


def _arguments(tool: JsonObject) -> frozenset[str]:
    schema = tool.get("inputSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return frozenset(properties) if isinstance(properties, dict) else frozenset()
