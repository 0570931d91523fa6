"""The tools of a registry in a provider's form, and in a request to it.

Pure module. All conversion is that of `fairlead_formats`; here it is put where a request has it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fairlead_client.tools import Tool
from fairlead_formats import registry
from fairlead_formats.names import Names
from fairlead_formats.tool_format import Format, JsonObject, Loss, Options, array_of
from fairlead_formats.tools.cache import Conversions
from fairlead_formats.tools.definitions import name_of

logger = logging.getLogger(__name__)

_NO_TOOL: Final = "/tools"


class Definitions(list[JsonObject]):
    """Definitions as they stand in a request of one provider, with what became of the tools on the way.

    A list, to be given to the provider's SDK as it is.
    """

    def __init__(
        self,
        tools: Iterable[JsonObject],
        *,
        format: str,  # noqa: A002  # the word that REST has for it
        member: str,
        names: Names,
        report: tuple[Loss, ...],
        max_tools: int | None,
    ) -> None:
        super().__init__(tools)
        self.format = format
        """As in `formats.registry`."""
        self.member = member
        """Where the list stands in a request: a JSON Pointer (RFC 6901), as `/tools` or `/toolConfig/tools`."""
        self.names = names
        """Both ways between the registry's names and those in the list; `execute` takes either."""
        self.report = report
        """Losses: parts that the format does not hold as they were, and tools that are not strict though asked for."""
        self.max_tools = max_tools
        """Tools that the provider takes in one request, where that is known."""

    def report_of(self, tool: str) -> tuple[Loss, ...]:
        """The part of the report about one tool, by the registry's name."""
        return tuple(loss for loss in self.report if loss.tool == tool)


def definitions(
    tools: Sequence[Tool], names: Names, format_: Format, options: Options, conversions: Conversions
) -> Definitions:
    """Tools in a provider's form; one that cannot be converted is left out, and in the report."""
    converted = conversions.convert(
        format_,
        [tool.definition for tool in tools],
        options,
        hashes=[tool.key for tool in tools],
        names=None if format_.name == registry.MCP else names,
    )
    member, listed = array_of(format_.request(converted.tools))
    return Definitions(
        listed,
        format=format_.name,
        member=member or _NO_TOOL,
        names=converted.names,
        report=converted.report,
        max_tools=format_.max_tools,
    )


def openai_format(request: Mapping[str, Any]) -> str:
    """Which of OpenAI's forms a request has: Responses by its `input`, the old `functions`, else Chat Completions."""
    if "functions" in request:
        return registry.OPENAI_FUNCTIONS
    return registry.OPENAI_RESPONSES if "input" in request and "messages" not in request else registry.OPENAI_CHAT


def add_offered(request: Mapping[str, Any], offered: Definitions, format_: Format) -> JsonObject:
    """A copy of the request with the tools behind those that it has. Of two tools of one name, the request's stays.

    Raises ValueError where the member that holds them is not a list.
    """
    member = offered.member.removeprefix("/")
    there = request.get(member)
    if there is not None and not isinstance(there, list):
        raise ValueError(f"{member} of the request is {type(there).__name__}, not a list")
    taken = {name_of(tool) for tool in format_.read(there).tools} if there else set()
    fitting = [tool for tool in offered if _name(tool) not in taken]
    if len(fitting) < len(offered):
        both = sorted(taken.intersection(map(_name, offered)))
        logger.warning("the request has tools of these names already, which stay: %s", ", ".join(both))
    combined = [*(there or ()), *fitting]
    if offered.max_tools is not None and len(combined) > offered.max_tools:
        logger.warning("the request has %d tools; %s takes %d", len(combined), offered.format, offered.max_tools)
    return {**request, member: combined} if combined else dict(request)


def _name(tool: JsonObject) -> str:
    inner = tool.get("function")
    return name_of(inner if isinstance(inner, dict) else tool)
