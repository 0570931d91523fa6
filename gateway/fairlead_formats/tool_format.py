"""Types that all formats of tool definitions share: options, losses, and the result of a conversion.

Pure module. A tool is its MCP definition as decoded JSON (specification 2026-07-28, `Tool`): `{name, title?,
description?, inputSchema, outputSchema?, annotations?, _meta?}`. Definitions must not be changed, neither arguments nor
results: they share parts with each other and with a cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

from fairlead_formats.names import Names

JsonObject: TypeAlias = dict[str, Any]
Definition: TypeAlias = Mapping[str, Any]
"""One tool definition as decoded JSON, in MCP's form or a provider's. Read only."""

GeminiField: TypeAlias = Literal["parameters", "parametersJsonSchema"]
GEMINI_JSON_SCHEMA: Final[GeminiField] = "parametersJsonSchema"


class Options(msgspec.Struct, frozen=True):
    """Options of a conversion."""

    strict: bool = False
    """Make tools strict if they lose nothing by it. All other tools stay non-strict, with a reason in the report."""
    model: str | None = None
    """The model that receives the tools, such as `gpt-5.1` or `claude-sonnet-5`; rules differ within a format."""
    gemini_field: GeminiField = GEMINI_JSON_SCHEMA
    """The member of a Gemini function declaration for the schema. Gemini Live reads only `parameters`."""


DEFAULT: Final = Options()


class Action(StrEnum):
    """Effect of a conversion on a part of a definition."""

    REWRITTEN = "rewritten"
    """Expressed in another form with the same meaning."""
    DESCRIBED = "described"
    """No longer enforced, but described to the model."""
    WIDENED = "widened"
    """The target accepts more than the original, and the model is not told."""
    NARROWED = "narrowed"
    """The target accepts less than the original."""
    DROPPED = "dropped"
    """Removed."""
    NON_STRICT = "non-strict"
    """Not made strict although requested, because strict would lose something."""
    REFUSED = "refused"
    """The whole tool is missing in the result."""

    @property
    def lossy(self) -> bool:
        """Whether meaning was lost; false if only the form changed."""
        return self is not Action.REWRITTEN


class Loss(msgspec.Struct, frozen=True):
    """One part of a definition that the target format cannot represent unchanged."""

    tool: str
    """Name of the tool in the source."""
    path: str
    """JSON Pointer (RFC 6901) into the definition, such as `/inputSchema/properties/a`."""
    keyword: str
    action: Action
    why: str
    """The reason, for a person."""

    @property
    def lossy(self) -> bool:
        """Whether meaning was lost; false if only the form changed."""
        return self.action.lossy


class ConvertedTools(msgspec.Struct, frozen=True):
    """Converted definitions, with their names and a report of losses."""

    tools: tuple[JsonObject, ...]
    """The converted definitions, in the order of the source, without refused tools."""
    names: Names
    """Mapping between source names and the names in `tools`."""
    report: tuple[Loss, ...] = ()
    """Losses, in the order of the source. A tool without a loss equals its original when it is converted back."""
    properties: dict[str, dict[str, str]] = {}
    """By name in `tools`: maps renamed properties to their names in the source, for targets that restrict property
    names.
    """

    def report_of(self, tool: str) -> tuple[Loss, ...]:
        """The entries of one tool, by its name in the source."""
        return tuple(loss for loss in self.report if loss.tool == tool)


class ReadDefinitions(msgspec.Struct, frozen=True):
    """MCP definitions read from a provider's definitions, with a report of what MCP cannot represent."""

    tools: tuple[JsonObject, ...]
    report: tuple[Loss, ...] = ()
    originals: tuple[OriginalTool, ...] = ()
    """All definitions of the source, in order."""


class OriginalTool(msgspec.Struct, frozen=True):
    """One definition of the source. A conversion to the same format returns it unchanged."""

    name: str
    """Name of the tool; empty for a tool that the provider runs, such as a web search, which no other format has."""
    definition: JsonObject
    report: tuple[Loss, ...] = ()
    """Losses in parts of the definition that other formats lack."""


class Format(Protocol):
    """One provider's format of tool definitions."""

    name: str
    """Name in lower case with `-`, such as `openai-chat`."""
    title: str
    """Name for people."""
    aliases: tuple[str, ...]
    """Other names, in lower case with `-`."""
    max_tools: int | None
    """Maximum number of tools in one request; None if unknown."""

    def convert(
        self, tools: Sequence[Definition], options: Options = DEFAULT, names: Names | None = None
    ) -> ConvertedTools:
        """Convert MCP definitions to this format. With `names` of an earlier conversion, tools keep the names that they
        have there. Never raises for the content of a definition: a tool that cannot be converted is refused in the
        report.
        """

    def read(self, payload: object) -> ReadDefinitions:
        """Read MCP definitions from a list of tools, one tool, or a request in this format (decoded JSON). Never raises
        for the content of the payload.
        """

    def request(self, tools: Sequence[Definition]) -> JsonObject:
        """Request members that hold converted tools, such as `{"tools": [...]}`."""


def array_of(request: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """The array of tools in request members, and its location as a JSON Pointer. Both are empty without tools."""
    path = ""
    value: Any = request
    while isinstance(value, Mapping) and value:
        name, value = next(iter(value.items()))
        path += f"/{name}"
    return path, value if isinstance(value, list) else []
