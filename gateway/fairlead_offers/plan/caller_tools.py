"""Reads the tools in a caller's request from any format, and separates them into tools of the gateway and tools of the
caller.

**A definition with the name, the safe name or the id of a visible tool means that tool**, because callers send back the
definitions that they got. The gateway then offers its own definition of the tool, and runs the tool's calls; `matched`
lists these tools. All other tools belong to the caller, who runs their calls. The REST resources `tools`, `plans` and
`toolcalls` all separate tools in this way.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead_formats import registry
from fairlead_formats.names import Names
from fairlead_formats.schema.nulls import remove_nulls
from fairlead_formats.schema.property_names import other_names, restore_names
from fairlead_formats.tool_format import Action, Format, JsonObject, Loss, OriginalTool
from fairlead_formats.tools.definitions import ToolFormat, name_of
from fairlead_offers.catalogs.visible_tools import VisibleTool, VisibleTools
from fairlead_offers.conversion.formats import find_format
from fairlead_offers.problems import INVALID_ARGUMENTS, Problem


class CallerTools(msgspec.Struct, frozen=True):
    """Tools in a request that belong to the caller, and names of those that belong to the gateway."""

    tools: tuple[JsonObject, ...] = ()
    """Definitions of the caller's tools in MCP's format, with unique names."""
    matched: dict[str, str] = {}
    """Exposed names of gateway tools that the request has, by the name in the request."""
    report: tuple[Loss, ...] = ()
    """Losses of reading the definitions, which apply to every target format."""
    conversion_losses: tuple[Loss, ...] = ()
    """Further losses, of converting the definitions to a format other than `format`."""
    names: Names = Names()
    """Names of the visible tools and of the caller's tools that every provider accepts."""
    format: Format = registry.FORMATS[registry.MCP]
    """Format of the request's tools."""
    originals: tuple[OriginalTool, ...] = ()
    """Definitions of the caller's tools as the request has them, in `format`, and entries that only this format has,
    such as a provider's built-in tools.
    """

    def find(self, name: str) -> JsonObject | None:
        """Find a tool of the caller by the caller's name for it, or by its safe name for providers."""
        original = self.names.original_name(name) or name
        return next((tool for tool in self.tools if tool["name"] in (name, original)), None)

    def names_in(self, target: Format, names: Names) -> dict[str, str]:
        """Names of the caller's tools in an offer, by the caller's names. In the request's own format, a tool keeps its
        name unless another tool of the offer has that name.
        """
        has_same_form = isinstance(target, ToolFormat) and target.shares_form_with(self.format)
        caller_names = [str(tool["name"]) for tool in self.tools]
        return {
            name: name if has_same_form and names.original_name(name) in (None, name) else names.safe_name(name)
            for name in caller_names
        }

    def original_definitions(self, target: ToolFormat, names: Names) -> list[OriginalTool]:
        """The caller's definitions for an offer in the request's own format, unchanged except that a tool is renamed if
        another tool of the offer has its name.
        """
        names_in_offer = self.names_in(target, names)
        return [
            OriginalTool(
                names_in_offer.get(original.name, original.name),
                target.rename(original, names_in_offer.get(original.name, original.name)),
            )
            for original in self.originals
        ]


def parse_caller_tools(payload: object, format_name: str, visible: VisibleTools) -> CallerTools:
    """Read the tools in decoded JSON: a list, one tool, a request, or None for no tools. Definitions that cannot be
    read are in the report. Raises Problem for an unknown format, and for two tools with the same name.
    """
    if payload is None:
        return CallerTools(names=visible.names)
    format_ = find_format(format_name)
    parsed = format_.read(payload)
    caller_tools: dict[str, JsonObject] = {}
    matched: dict[str, str] = {}
    conversion_losses = tuple(loss for each in parsed.originals for loss in each.report)
    report = [loss for loss in parsed.report if loss not in conversion_losses]
    for tool in parsed.tools:
        name = name_of(tool)
        entry = visible.find(visible.names.original_name(name) or name)
        if entry is None:
            if name in caller_tools:
                message = (
                    f"two tools have the name {name[:128]!r}, so that calls would be ambiguous: rename one of them"
                )
                raise Problem(INVALID_ARGUMENTS, message)
            caller_tools[name] = tool
        elif name not in matched:
            matched[name] = entry.name
            report += _report_other_arguments(tool, name, entry)
    originals = tuple(each for each in parsed.originals if each.name not in matched)
    names = Names.extend(visible.names, caller_tools)
    return CallerTools(
        tuple(caller_tools.values()), matched, tuple(report), conversion_losses, names, format_, originals
    )


def arguments_for(tool: JsonObject, arguments: Any) -> Any:
    """Convert a model's arguments for a tool that the caller runs: remove the nulls that strict mode requires, and
    restore the names of properties.
    """
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict) or not isinstance(arguments, dict):
        return arguments
    return remove_nulls(restore_names(arguments, other_names(schema)), schema)


def offered_names(format_name: str, visible: VisibleTools, caller_tools: CallerTools) -> Names:
    """Names of all tools that an offer may contain. In MCP's format, names are not changed."""
    if format_name != registry.MCP:
        return caller_tools.names
    return Names.unchanged([*visible.names.forward, *(tool["name"] for tool in caller_tools.tools)])


def _report_other_arguments(tool: JsonObject, name: str, entry: VisibleTool) -> list[Loss]:
    """Report a tool of the request whose arguments differ from the arguments of the gateway's tool of the same name."""
    if _arguments(tool) == _arguments(entry.decoded_definition):
        return []
    reason = f"instead of it, the gateway's tool {entry.name} is offered, which has this name but other arguments"
    return [Loss(name, "", "name", Action.DROPPED, reason)]


def _arguments(tool: JsonObject) -> frozenset[str]:
    schema = tool.get("inputSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return frozenset(properties) if isinstance(properties, dict) else frozenset()
