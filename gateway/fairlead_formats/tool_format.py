"""Types that every format of tool definitions shares: options, losses, and the outcome of a conversion.

Pure module, read by everything in this package. A tool is its MCP definition as decoded JSON (specification
2026-07-28, `Tool`): `{name, title?, description?, inputSchema, outputSchema?, annotations?, _meta?}`. Definitions that
go in and come out share parts with each other and with a cache: they are to be read, never to be changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

from fairlead_formats.names import Names

JsonObject: TypeAlias = dict[str, Any]
Definition: TypeAlias = Mapping[str, Any]
"""One tool as decoded JSON, in MCP's form or a provider's. Read only."""

GeminiField: TypeAlias = Literal["parameters", "parametersJsonSchema"]
GEMINI_JSON_SCHEMA: Final[GeminiField] = "parametersJsonSchema"


class Options(msgspec.Struct, frozen=True):
    """Wishes of a caller for a conversion."""

    strict: bool = False
    """Make a tool strict where that loses nothing; the others stay non-strict, with the reason in the report."""
    model: str | None = None
    """The model that will read the tools, where rules differ within a format: `gpt-5.1`, `claude-sonnet-5`."""
    gemini_field: GeminiField = GEMINI_JSON_SCHEMA
    """Which member of a Gemini function declaration holds the schema. Gemini Live reads `parameters` only."""


DEFAULT: Final = Options()


class Action(StrEnum):
    """Fate of a part of a definition."""

    REWRITTEN = "rewritten"
    """Says the same in another form; nothing is lost."""
    DESCRIBED = "described"
    """No longer enforced, but told to the model in the description."""
    WIDENED = "widened"
    """The target accepts more than the original, and is not told so."""
    NARROWED = "narrowed"
    """The target accepts less than the original."""
    DROPPED = "dropped"
    """Left out."""
    NON_STRICT = "non-strict"
    """Strict was asked for and would have lost something."""
    REFUSED = "refused"
    """The tool is not in the outcome."""


class Loss(msgspec.Struct, frozen=True):
    """One part of a definition that the target format cannot hold as it was."""

    tool: str
    """Its name in the source."""
    path: str
    """JSON Pointer (RFC 6901) into the definition, as `/inputSchema/properties/a`."""
    keyword: str
    action: Action
    why: str
    """A sentence for a person."""

    @property
    def lossy(self) -> bool:
        """Whether something is lost, as against said in another form."""
        return self.action is not Action.REWRITTEN


class Converted(msgspec.Struct, frozen=True):
    """Definitions in the form of the target, with what became of their names and parts."""

    tools: tuple[JsonObject, ...]
    """In the order of the source; refused tools are missing."""
    names: Names
    """Both ways between source names and the names in `tools`."""
    report: tuple[Loss, ...] = ()
    """In the order of the source. Empty for a tool: reading it back gives an equal definition."""
    properties: dict[str, dict[str, str]] = {}
    """By name in `tools`: names of properties there to those in the source, where the target takes other names only."""

    def report_of(self, tool: str) -> tuple[Loss, ...]:
        """The part of the report about one tool, by its name in the source."""
        return tuple(loss for loss in self.report if loss.tool == tool)


class Read(msgspec.Struct, frozen=True):
    """MCP definitions read from a provider's, and what MCP cannot hold of those."""

    tools: tuple[JsonObject, ...]
    report: tuple[Loss, ...] = ()
    originals: tuple[Original, ...] = ()
    """Everything that was read, in its order."""


class Original(msgspec.Struct, frozen=True):
    """One definition as it came. To the format it came in it goes back untouched."""

    name: str
    """Empty for a tool of the provider's own, as a web search, which no other format has."""
    definition: JsonObject
    report: tuple[Loss, ...] = ()
    """The part of the report that says what another format lacks of it."""


class Format(Protocol):
    """One provider's form of tool definitions."""

    name: str
    """In lower case with `-`, as `openai-chat`."""
    title: str
    """For people."""
    aliases: tuple[str, ...]
    """Other names, in lower case with `-`."""
    max_tools: int | None
    """Tools that one request may hold; None where no bound is known."""

    def convert(self, tools: Sequence[Definition], options: Options = DEFAULT, names: Names | None = None) -> Converted:
        """MCP definitions in this form. `names` from an earlier conversion keeps a mapping stable. Never raises for
        what a definition holds: a bad tool is refused in the report.
        """

    def read(self, payload: object) -> Read:
        """MCP definitions of a list of tools, of one tool, or of a request in this form (decoded JSON). Never
        raises for what the payload holds.
        """

    def request(self, tools: Sequence[Definition]) -> JsonObject:
        """The members of a request that hold converted tools, as `{"tools": [...]}`."""


def array_of(request: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """The array of tools in the members of a request, and where it stands. Both are empty where it holds no tool."""
    path = ""
    value: Any = request
    while isinstance(value, Mapping) and value:
        name, value = next(iter(value.items()))
        path += f"/{name}"
    return path, value if isinstance(value, list) else []
