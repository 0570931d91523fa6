"""Conversion of tool definitions from any format to any other, through MCP.

Pure module. The result has the form of the target's request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from fairlead_formats.tool_format import (
    DEFAULT,
    Action,
    Format,
    JsonObject,
    Loss,
    Options,
    OriginalTool,
    ReadDefinitions,
    array_of,
)
from fairlead_formats.tools.definitions import ToolFormat


class Conversion(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Converted tools, in the form of the provider's request."""

    format: str
    member: str
    """Location of `tools` in the request, a JSON Pointer (RFC 6901) such as `/tools` or `/toolConfig/tools`."""
    tools: list[Any]
    names: dict[str, str]
    """Maps the name in `tools`, which the model calls, to the original name."""
    report: tuple[Loss, ...]
    """Parts that the format cannot represent unchanged. A tool without an entry lost nothing."""
    properties: dict[str, dict[str, str]] = {}
    """By name in `tools`: maps renamed properties to their original names, for providers that restrict those names."""
    max_tools: int | None = None
    """Maximum number of tools in one request; None if unknown."""


def between(
    payload: object,
    source: Format,
    target: Format,
    options: Options = DEFAULT,
    *,
    pace: Callable[[Iterable[JsonObject]], Iterable[JsonObject]] = iter,
) -> Conversion:
    """Convert the tools of a list, of one tool, or of a request (decoded JSON). Never raises for their content.
    `pace` iterates over the tools and may pause in between.
    """
    source_tools = source.read(payload)
    if isinstance(target, ToolFormat) and target.shares_form_with(source) and not options.strict:
        return _pass_through(source_tools, target)
    if isinstance(target, ToolFormat):
        converted_tools = target.assemble(
            source_tools.tools, [target.prepare(tool, options) for tool in pace(source_tools.tools)]
        )
    else:
        converted_tools = target.convert(source_tools.tools, options)
    native_tools = _native_tools(source_tools, source, target)
    native_losses = {loss for native_tool in native_tools for loss in native_tool.report}
    report = tuple(loss for loss in source_tools.report if loss not in native_losses)
    if isinstance(target, ToolFormat):
        member, tools = target.place_tools(converted_tools.tools, native_tools)
    else:
        member, tools = array_of(target.request(converted_tools.tools))
    names = dict(converted_tools.names.originals)
    return Conversion(
        target.name, member, tools, names, report + converted_tools.report, converted_tools.properties, target.max_tools
    )


def _pass_through(source_tools: ReadDefinitions, target: ToolFormat) -> Conversion:
    """Return tools unchanged, because the target has the source's form. Of several functions with the same name, only
    the first is kept.
    """
    tool_names: set[str] = set()
    distinct_tools: list[OriginalTool] = []
    report = [loss for loss in source_tools.report if loss.action is Action.REFUSED]
    native_losses = {loss for original in source_tools.originals for loss in original.report}
    report = [loss for loss in report if loss not in native_losses]
    for original in source_tools.originals:
        if original.name and original.name in tool_names:
            report.append(Loss(original.name, "/name", "name", Action.REFUSED, "another tool has this name"))
            continue
        tool_names.add(original.name)
        distinct_tools.append(original)
    member, tools = target.place_tools((), distinct_tools)
    names = {original.name: original.name for original in distinct_tools if original.name}
    return Conversion(target.name, member, tools, names, tuple(report), max_tools=target.max_tools)


def _native_tools(source_tools: ReadDefinitions, source: Format, target: Format) -> list[OriginalTool]:
    """Tools that the provider runs itself. They are passed on unchanged to the same format and left out for others."""
    has_same_form = isinstance(target, ToolFormat) and target.shares_form_with(source)
    return [original for original in source_tools.originals if not original.name] if has_same_form else []
