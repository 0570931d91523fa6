"""Definitions from any format to any other, through MCP, as they stand in the target's request.

Pure module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from fairlead_formats.tool_format import DEFAULT, Action, Format, JsonObject, Loss, Options, Original, Read, array_of
from fairlead_formats.tools.definitions import ToolFormat


class Conversion(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Tools as they stand in a provider's request."""

    format: str
    member: str
    """Where `tools` stand in the request: a JSON Pointer (RFC 6901), as `/tools` or `/toolConfig/tools`."""
    tools: list[Any]
    names: dict[str, str]
    """Name in `tools` to original name: what the model calls, and what it means."""
    report: tuple[Loss, ...]
    """Parts that the format does not hold as they were. Empty for a tool: nothing was lost."""
    properties: dict[str, dict[str, str]] = {}
    """By name in `tools`: names of properties to the original ones, where the provider takes other names only."""
    max_tools: int | None = None
    """Tools that the provider takes in one request, where that is known."""


def between(
    payload: object,
    source: Format,
    target: Format,
    options: Options = DEFAULT,
    *,
    pace: Callable[[Iterable[JsonObject]], Iterable[JsonObject]] = iter,
) -> Conversion:
    """Convert the tools of a list, of one tool, or of a request (decoded JSON). Never raises for what that holds.
    `pace` goes through the tools, and may rest in between.
    """
    read = source.read(payload)
    if isinstance(target, ToolFormat) and target.like(source) and not options.strict:
        return _as_they_came(read, target)
    if isinstance(target, ToolFormat):
        converted = target.assemble(read.tools, [target.prepare(tool, options) for tool in pace(read.tools)])
    else:
        converted = target.convert(read.tools, options)
    own = _providers_own(read, source, target)
    owns = {loss for each in own for loss in each.report}
    report = tuple(loss for loss in read.report if loss not in owns)
    if isinstance(target, ToolFormat):
        member, tools = target.beside(converted.tools, own)
    else:
        member, tools = array_of(target.request(converted.tools))
    names = dict(converted.names.backward)
    return Conversion(
        target.name, member, tools, names, report + converted.report, converted.properties, target.max_tools
    )


def _as_they_came(read: Read, target: ToolFormat) -> Conversion:
    """Tools that go out in the form they came in: as they are. Of two functions of one name the first counts."""
    seen: set[str] = set()
    first: list[Original] = []
    report = [loss for loss in read.report if loss.action is Action.REFUSED]
    owns = {loss for each in read.originals for loss in each.report}
    report = [loss for loss in report if loss not in owns]
    for original in read.originals:
        if original.name and original.name in seen:
            report.append(Loss(original.name, "/name", "name", Action.REFUSED, "another tool has this name"))
            continue
        seen.add(original.name)
        first.append(original)
    member, tools = target.beside((), first)
    names = {original.name: original.name for original in first if original.name}
    return Conversion(target.name, member, tools, names, tuple(report), max_tools=target.max_tools)


def _providers_own(read: Read, source: Format, target: Format) -> list[Original]:
    """Tools of the provider's own, which are not functions and go out in the form they came in."""
    same = isinstance(target, ToolFormat) and target.like(source)
    return [original for original in read.originals if not original.name] if same else []
