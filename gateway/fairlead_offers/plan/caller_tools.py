"""The caller's own tools: read from any format, matched with ours, and kept apart, for the caller runs them itself.

The resources `tools`, `plans` and `toolcalls` agree by it on whose a tool is. **A definition that
goes by the name, the safe name or the id of a visible tool means that tool**: callers send back all that they were
given. The registry's definition is offered then and the gateway runs it; `matched` says so. Any other is the caller's.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead_formats import registry
from fairlead_formats.names import Names
from fairlead_formats.schema.nulls import un_null
from fairlead_formats.schema.property_names import other_names, restore_names
from fairlead_formats.tool_format import Action, Format, JsonObject, Loss, Original
from fairlead_formats.tools.definitions import ToolFormat, name_of
from fairlead_offers.catalogs.visible_tools import VisibleTool, VisibleTools
from fairlead_offers.conversion.formats import find_format
from fairlead_offers.problems import INVALID_ARGUMENTS, Problem


class CallerTools(msgspec.Struct, frozen=True):
    """Definitions of a request that are the caller's own tools."""

    tools: tuple[JsonObject, ...] = ()
    """Definitions in MCP's form, each name once."""
    matched: dict[str, str] = {}
    """Name of a definition that means one of our tools, to that tool's exposed name."""
    report: tuple[Loss, ...] = ()
    lacking: tuple[Loss, ...] = ()
    """Losses of their definitions in a format other than theirs."""
    names: Names = Names()
    """Provider names of the visible tools and of the caller's."""
    format: Format = registry.FORMATS[registry.MCP]
    """Theirs."""
    originals: tuple[Original, ...] = ()
    """Its definitions as they came, and whatever else it sent that only their format has."""

    def find(self, name: str) -> JsonObject | None:
        """The caller's tool of that name, as it wrote it or as a provider shows it."""
        original = self.names.original(name) or name
        return next((tool for tool in self.tools if tool["name"] in (name, original)), None)

    def names_in(self, target: Format, names: Names) -> dict[str, str]:
        """The caller's names to those in an offer. In their own format they stay, unless another tool has one."""
        same = isinstance(target, ToolFormat) and target.shares_form_with(self.format)
        every = [str(tool["name"]) for tool in self.tools]
        return {name: name if same and names.original(name) in (None, name) else names.safe(name) for name in every}

    def untouched(self, target: ToolFormat, names: Names) -> list[Original]:
        """Definitions for the format that they came in, as they came but for names that another tool has."""
        shown = self.names_in(target, names)
        return [
            Original(shown.get(each.name, each.name), target.rename(each, shown.get(each.name, each.name)))
            for each in self.originals
        ]


def parse_caller_tools(payload: object, format_name: str, visible: VisibleTools) -> CallerTools:
    """Sort the tools of a list, of one tool or of a request (decoded JSON; None: there are none). Raises Problem for an
    unknown format and for two tools of one name; a definition that cannot be read is refused in the report.
    """
    if payload is None:
        return CallerTools(names=visible.names)
    format_ = find_format(format_name)
    read = format_.read(payload)
    own: dict[str, JsonObject] = {}
    matched: dict[str, str] = {}
    lacking = tuple(loss for each in read.originals for loss in each.report)
    report = [loss for loss in read.report if loss not in lacking]
    for tool in read.tools:
        name = name_of(tool)
        entry = visible.find(visible.names.original(name) or name)
        if entry is None:
            if name in own:
                why = f"two of the tools have the name {name[:128]!r}: a call would not say which; rename one of them"
                raise Problem(INVALID_ARGUMENTS, why)
            own[name] = tool
        elif name not in matched:
            matched[name] = entry.name
            report += _other(tool, name, entry)
    originals = tuple(each for each in read.originals if each.name not in matched)
    names = Names.extend(visible.names, own)
    return CallerTools(tuple(own.values()), matched, tuple(report), lacking, names, format_, originals)


def arguments_for(tool: JsonObject, arguments: Any) -> Any:
    """Arguments for a tool that the caller runs: without the nulls that strict mode asks for, under its own names."""
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict) or not isinstance(arguments, dict):
        return arguments
    return un_null(restore_names(arguments, other_names(schema)), schema)


def offered_names(format_name: str, visible: VisibleTools, own: CallerTools) -> Names:
    """Names of all tools that an offer may hold; MCP takes any name."""
    if format_name != registry.MCP:
        return own.names
    return Names.unchanged([*visible.names.forward, *(tool["name"] for tool in own.tools)])


def _other(tool: JsonObject, name: str, entry: VisibleTool) -> list[Loss]:
    """A line of the report where the caller's tool takes other arguments than ours."""
    if _arguments(tool) == _arguments(entry.decoded):
        return []
    why = f"{entry.name} of the gateway has this name, is offered in its place and takes other arguments"
    return [Loss(name, "", "name", Action.DROPPED, why)]


def _arguments(tool: JsonObject) -> frozenset[str]:
    schema = tool.get("inputSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return frozenset(properties) if isinstance(properties, dict) else frozenset()
