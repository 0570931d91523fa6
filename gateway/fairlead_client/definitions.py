"""Converts the tools of a registry to a provider's format, and adds them to requests.

No I/O. `fairlead_formats` converts the definitions. This module adds them to the member of a request that contains the
request's own tools.
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
    """List of definitions in a provider's format, with a report about the conversion.

    It can be passed to the provider's SDK unchanged.
    """

    def __init__(
        self,
        tools: Iterable[JsonObject],
        *,
        format: str,  # noqa: A002  # the REST API has the same word
        member: str,
        names: Names,
        report: tuple[Loss, ...],
        max_tools: int | None,
    ) -> None:
        super().__init__(tools)
        self.format = format
        """Name of the format, as in `formats.registry`."""
        self.member = member
        """Location of the list in a request, as a JSON Pointer (RFC 6901) such as `/tools` or `/toolConfig/tools`."""
        self.names = names
        """Mapping between the registry's tool names and those in the list; `execute` accepts both."""
        self.report = report
        """Losses: parts that the format cannot express, and tools that are not strict although `strict` was set."""
        self.max_tools = max_tools
        """Maximum number of tools that the provider accepts in one request; None if unknown."""

    def report_of(self, tool: str) -> tuple[Loss, ...]:
        """The part of the report about one tool, by the registry's name."""
        return tuple(loss for loss in self.report if loss.tool == tool)


def convert_tools(
    tools: Sequence[Tool], names: Names, format_: Format, options: Options, conversions: Conversions
) -> Definitions:
    """Convert tools to a provider's format. A tool that cannot be converted is left out, and the report says so."""
    conversion = conversions.convert(
        format_,
        [tool.definition for tool in tools],
        options,
        hashes=[tool.key for tool in tools],
        names=None if format_.name == registry.MCP else names,
    )
    member, tool_list = array_of(format_.request(conversion.tools))
    return Definitions(
        tool_list,
        format=format_.name,
        member=member or _NO_TOOL,
        names=conversion.names,
        report=conversion.report,
        max_tools=format_.max_tools,
    )


def openai_format(request: Mapping[str, Any]) -> str:
    """OpenAI's format of a request: the legacy format for `functions`, Responses for `input`, else Chat Completions."""
    if "functions" in request:
        return registry.OPENAI_FUNCTIONS
    return registry.OPENAI_RESPONSES if "input" in request and "messages" not in request else registry.OPENAI_CHAT


def add_definitions(request: Mapping[str, Any], definitions: Definitions, format_: Format) -> JsonObject:
    """Copy a request and append the tools of `definitions` to its tools. A tool is left out, which is logged, if the
    request has a tool of the same name.

    Raises ValueError if the member with the request's tools is not a list.
    """
    member = definitions.member.removeprefix("/")
    request_tools = request.get(member)
    if request_tools is not None and not isinstance(request_tools, list):
        raise ValueError(f"{member} of the request is {type(request_tools).__name__}, not a list")
    request_names = {name_of(tool) for tool in format_.read(request_tools).tools} if request_tools else set()
    new_tools = [tool for tool in definitions if _name(tool) not in request_names]
    if len(new_tools) < len(definitions):
        common_names = sorted(request_names.intersection(map(_name, definitions)))
        logger.warning(
            "some tools of the registry are not added, because the request already has tools of these names: %s",
            ", ".join(common_names),
        )
    all_tools = [*(request_tools or ()), *new_tools]
    if definitions.max_tools is not None and len(all_tools) > definitions.max_tools:
        logger.warning(
            "the request has %d tools, but %s accepts at most %d",
            len(all_tools),
            definitions.format,
            definitions.max_tools,
        )
    return {**request, member: all_tools} if all_tools else dict(request)


def _name(tool: JsonObject) -> str:
    inner = tool.get("function")
    return name_of(inner if isinstance(inner, dict) else tool)
