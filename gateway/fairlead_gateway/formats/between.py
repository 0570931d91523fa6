"""Definitions from any format to any other, through MCP, as they stand in the target's request.

Pure module. Used by `POST /v1/convert` and `fairlead convert`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from fairlead_gateway.formats.definitions import ToolFormat
from fairlead_gateway.formats.format import DEFAULT, Format, JsonObject, Loss, Options


class Conversion(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Tools as they stand in a provider's request."""

    format: str
    member: str
    """Where `tools` stand in the request: a JSON Pointer (RFC 6901), as `/tools` or `/toolConfig/tools`."""
    tools: list[Any]
    names: dict[str, str]
    """Name in `tools` to original name: what the model calls, and what it means."""
    report: tuple[Loss, ...]
    """What the format does not hold as it was. Empty for a tool: nothing was lost."""
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
    if isinstance(target, ToolFormat):
        found = target.assemble(read.tools, [target.prepare(tool, options) for tool in pace(read.tools)])
    else:
        found = target.convert(read.tools, options)
    member, tools = array_of(target.request(found.tools))
    return Conversion(
        target.name, member, tools, dict(found.names.backward), read.report + found.report, target.max_tools
    )


def array_of(request: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """The array of tools in the members of a request, and where it stands. Both are empty where it holds no tool."""
    path = ""
    value: Any = request
    while isinstance(value, Mapping) and value:
        name, value = next(iter(value.items()))
        path += f"/{name}"
    return path, value if isinstance(value, list) else []
