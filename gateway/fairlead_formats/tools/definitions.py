"""Conversion of tool definitions from MCP to a provider's format and back, as far as all formats share it.

Pure module. A `ToolFormat` consists of an `Envelope` (locations of a tool's parts), the choice of schema rules, and
limits. The formats are in `providers`. Each tool is converted by itself: a tool that cannot be converted is refused in
the report, and the others are converted. Before a converted definition is cached, it is checked against its provider's
documented rules, so that a fault of a converter costs one tool and not the request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from fairlead_formats.names import Names
from fairlead_formats.schema import constraint_texts
from fairlead_formats.schema.budget import TooMuch
from fairlead_formats.schema.convert import ConvertedSchema, UnusableSchema, convert
from fairlead_formats.schema.rules import SchemaTarget
from fairlead_formats.tool_format import (
    DEFAULT,
    Action,
    ConvertedTools,
    Definition,
    Format,
    JsonObject,
    Loss,
    Options,
    OriginalTool,
    ReadDefinitions,
    array_of,
)

log = logging.getLogger(__name__)

FAULT: Final = "the converter failed on this tool; the gateway's log has the traceback"
REJECTED: Final = "the converted definition breaks a rule of the provider, which would refuse every request with it"
MAX_NAME: Final = 1024
"""Maximum number of characters of a source name; MCP recommends 128."""

_encode = msgspec.json.Encoder().encode
_CONVERTED_MEMBERS: Final = frozenset({"name", "description", "inputSchema"})
_DROP_REASONS: Final = {
    "title": "the format has no title of a tool",
    "annotations": "the format has no annotations",
    "outputSchema": "the format has no schema of results",
    "_meta": "the format has no metadata",
    "icons": "the format has no icons",
}


Targets: TypeAlias = tuple[SchemaTarget, SchemaTarget | None]
"""The schema rules of a model, and its strict rules if strict was requested and exists. A model name that does not
identify a model selects the narrowest rules of the format."""


Rejection: TypeAlias = Callable[[JsonObject], str | None]
"""Names the rule by which a provider rejects a converted definition, whatever its name; None if it accepts it."""


class NotAFunction(UnusableSchema):
    """A definition that is not a function, such as a tool that the provider runs: no other format can represent it."""


class NotJson(ValueError):
    """A definition that cannot be sent, for example because it has half a surrogate pair."""


class Rejected(ValueError):
    """A converted definition that breaks a rule of the provider, which would refuse all tools of the request."""


class PreparedTool(msgspec.Struct, frozen=True):
    """One converted tool without its name. Can be cached as long as the definition does not change."""

    definition: JsonObject | None
    """In the target's form, with an empty name; None for a refused tool."""
    losses: tuple[Loss, ...] = ()
    properties: dict[str, str] = {}
    """Maps renamed properties to their original names."""


class Parts(msgspec.Struct, frozen=True):
    """Parts of one tool, for an envelope to write."""

    name: str
    description: str
    schema: JsonObject
    strict: bool | None
    """None if strict mode was not requested."""
    options: Options
    output: JsonObject | None = None


class ProviderTool(msgspec.Struct, frozen=True):
    """Parts of one tool, read from a provider's form."""

    name: Any
    description: Any = None
    schema: Any = None
    output: Any = None
    losses: tuple[tuple[str, str, str], ...] = ()
    """(path, keyword, why) for each part that MCP cannot represent."""


class Envelope(msgspec.Struct, frozen=True):
    """Reads and writes the parts of a tool at their locations in a provider's request."""

    write: Callable[[Parts], JsonObject]
    rename: Callable[[JsonObject, str], JsonObject]
    """A copy of a written tool with another name; it shares all other parts with the original."""
    read: Callable[[JsonObject], ProviderTool]
    """Raises UnusableSchema for a tool that is not a function."""
    request: Callable[[list[Definition]], JsonObject]
    unpack: Callable[[Any], list[Any]]
    """The tools of a request, of a list, or of one tool alone."""
    output: bool = False
    """Whether a tool holds the schema of its result."""
    grouped: bool = False
    """Whether functions are grouped in one entry of the request's tools."""


class FormatLimits(msgspec.Struct, frozen=True):
    """Limits of one format on the tools of a request; None for an unknown limit."""

    max_tools: int | None = None
    max_description: int | None = None
    """Maximum number of characters of a description."""
    needs_description: bool = False
    """Whether an empty description is refused."""
    max_strict: int | None = None
    """Maximum number of strict tools in one request."""


NO_LIMITS: Final = FormatLimits()


def accept_all(definition: JsonObject) -> None:
    """Accept every definition, for a provider that documents no rules."""


class ToolFormat:
    """A `Format` over an envelope. Stateless; safe to share between threads."""

    def __init__(
        self,
        name: str,
        title: str,
        aliases: tuple[str, ...],
        envelope: Envelope,
        targets: Callable[[Options], Targets],
        limits: FormatLimits = NO_LIMITS,
        rejection: Rejection = accept_all,
    ) -> None:
        self.name = name
        self.title = title
        self.aliases = aliases
        self.envelope = envelope
        self._targets = targets
        self.max_tools = limits.max_tools
        self._limits = limits
        self._rejection = rejection

    def __repr__(self) -> str:
        return f"<ToolFormat {self.name}>"

    def request(self, tools: Sequence[Definition]) -> JsonObject:
        return self.envelope.request(list(tools))

    def convert(
        self, tools: Sequence[Definition], options: Options = DEFAULT, names: Names | None = None
    ) -> ConvertedTools:
        return self.assemble(tools, [self.prepare(tool, options) for tool in tools], names)

    def assemble(
        self, tools: Sequence[Definition], prepared_tools: Sequence[PreparedTool], names: Names | None = None
    ) -> ConvertedTools:
        """Give prepared tools their names. Of several tools with the same name, only the first is kept."""
        tool_names = [name_of(tool) for tool in tools]
        mapping = names or Names(
            name for name, tool in zip(tool_names, prepared_tools, strict=True) if name and tool.definition is not None
        )
        out: list[JsonObject] = []
        report: list[Loss] = []
        properties: dict[str, dict[str, str]] = {}
        seen_names: set[str] = set()
        strict_count = 0
        max_strict = self._limits.max_strict
        rename, forward = self.envelope.rename, mapping.forward
        for name, tool in zip(tool_names, prepared_tools, strict=True):
            report += tool.losses
            if tool.definition is None:
                continue
            if name in seen_names or name not in forward:
                why = "another tool has this name" if name in seen_names else "`names` has no entry for this tool"
                report.append(Loss(name, "/name", "name", Action.REFUSED, why))
                continue
            seen_names.add(name)
            definition = rename(tool.definition, forward[name])
            strict_count += definition.get("strict") is True
            if max_strict is not None and strict_count > max_strict and definition.pop("strict", False):
                why = f"a request may hold at most {max_strict} strict tools"
                report.append(Loss(name, "", "strict", Action.NON_STRICT, why))
            out.append(definition)
            if tool.properties:
                properties[forward[name]] = tool.properties
        return ConvertedTools(tuple(out), mapping, tuple(report), properties)

    def prepare(self, tool: Definition, options: Options = DEFAULT) -> PreparedTool:
        """Convert one tool except for its name. Never raises for the content of the definition."""
        name = name_of(tool)
        try:
            prepared_tool = self._convert(tool, name, options)
            if prepared_tool.definition is not None:
                _check_json(prepared_tool.definition)
                self._check_accepted(prepared_tool.definition, name)
            return prepared_tool
        except (UnusableSchema, TooMuch) as error:
            return PreparedTool(None, (Loss(name, "/inputSchema", "inputSchema", Action.REFUSED, str(error)),))
        except (NotJson, Rejected) as error:
            return PreparedTool(None, (Loss(name, "", "", Action.REFUSED, str(error)),))
        except Exception as error:
            log.exception("The conversion of the tool %r to the format %s failed", name[:128], self.name)
            why = f"{FAULT}: {type(error).__name__}"
            return PreparedTool(None, (Loss(name, "/inputSchema", "inputSchema", Action.REFUSED, why),))

    def _check_accepted(self, definition: JsonObject, name: str) -> None:
        """Raises Rejected for a definition that the provider would reject."""
        rejection = self._rejection(self.envelope.rename(definition, name))
        if rejection is not None:
            log.error("The tool %r is left out of lists for %s: %s: %s", name[:128], self.title, REJECTED, rejection)
            raise Rejected(f"{REJECTED}: {rejection}")

    def _convert(self, tool: Definition, name: str, options: Options) -> PreparedTool:
        if not name or len(name) > MAX_NAME:
            why = "the tool has no name" if not name else f"the name is longer than {MAX_NAME} characters"
            return PreparedTool(None, (Loss(name[:64], "/name", "name", Action.REFUSED, why),))
        lax, strict = self._targets(options)
        outcome = convert(tool.get("inputSchema"), lax, strict)
        losses = [
            Loss(name, f"/inputSchema{path}", keyword, action, why) for path, keyword, action, why in outcome.losses
        ]
        if len(tool) > len(_CONVERTED_MEMBERS):
            self._report_dropped_members(tool, name, losses)
        output = tool.get("outputSchema") if self.envelope.output else None
        description = self._description(tool, name, outcome, losses)
        strict_outcome = outcome.strict if options.strict else None
        definition = self.envelope.write(
            Parts(
                "", description, outcome.schema, strict_outcome, options, output if isinstance(output, dict) else None
            )
        )
        return PreparedTool(definition, tuple(losses), outcome.names)

    def _report_dropped_members(self, tool: Definition, name: str, losses: list[Loss]) -> None:
        for member in tool:
            if member in _CONVERTED_MEMBERS or (member == "outputSchema" and self.envelope.output):
                continue
            why = _DROP_REASONS.get(member, "the format has no such member")
            losses.append(Loss(name, f"/{member}", member, Action.DROPPED, why))

    def _description(self, tool: Definition, name: str, outcome: ConvertedSchema, losses: list[Loss]) -> str:
        original = tool.get("description")
        text = original if isinstance(original, str) else ""
        if original is not None and not isinstance(original, str):
            losses.append(Loss(name, "/description", "description", Action.DROPPED, "the description is not text"))
        if not text.strip() and self._limits.needs_description:
            title = tool.get("title")
            text = title if isinstance(title, str) and title.strip() else name
            losses.append(
                Loss(name, "/description", "description", Action.REWRITTEN, "the provider refuses an empty description")
            )
        limit = self._limits.max_description
        notes = outcome.notes
        if limit is not None and len(text) + len(notes) + 2 > limit and (len(text) > limit or notes):
            shortened_text = _cut(text, limit - len(notes) - 2 if notes else limit)
            if shortened_text != text:
                why = f"only its end, as the provider refuses descriptions of more than {limit} characters"
                losses.append(Loss(name, "/description", "description", Action.DROPPED, why))
            text = shortened_text
        return constraint_texts.append(text, notes)[:limit] if notes else text

    def read(self, payload: object) -> ReadDefinitions:
        tools: list[JsonObject] = []
        report: list[Loss] = []
        originals: list[OriginalTool] = []
        for position, tool in enumerate(self.envelope.unpack(payload)):
            losses: tuple[Loss, ...]
            try:
                if not isinstance(tool, dict):
                    raise UnusableSchema(f"{constraint_texts.compact(tool)} is not a tool")
                parts = self.envelope.read(tool)
                tools.append(_definition(parts))
                losses = tuple(
                    Loss(parts.name, path, keyword, Action.DROPPED, why) for path, keyword, why in parts.losses
                )
                originals.append(OriginalTool(parts.name, tool, losses))
            except (UnusableSchema, TooMuch, RecursionError) as error:
                losses = (Loss(f"#{position}", "", "", Action.REFUSED, str(error)),)
                if isinstance(error, NotAFunction):
                    originals.append(OriginalTool("", tool, losses))
            report += losses
        groups = [original.definition.get("tools") for original in originals if not original.name]
        nested_ids = {id(nested_tool) for group in groups if isinstance(group, list) for nested_tool in group}
        return ReadDefinitions(
            tuple(tools),
            tuple(report),
            tuple(original for original in originals if id(original.definition) not in nested_ids),
        )

    def shares_form_with(self, other: Format) -> bool:
        """Whether definitions of the two formats have the same form, so that they need no conversion."""
        return isinstance(other, ToolFormat) and other.envelope is self.envelope

    def rename(self, original: OriginalTool, name: str) -> JsonObject:
        """The original definition with another name; the same object where the name is unchanged."""
        return original.definition if name == original.name else self.envelope.rename(original.definition, name)

    def place_tools(self, tools: Sequence[Definition], originals: Sequence[OriginalTool]) -> tuple[str, list[Any]]:
        """The request's array of tools with `tools` and `originals`, and its location as a JSON Pointer."""
        tools_with_name = [original.definition for original in originals if original.name or not self.envelope.grouped]
        member, array = array_of(self.envelope.request([*tools, *tools_with_name]))
        other_tools = (
            [] if not self.envelope.grouped else [original.definition for original in originals if not original.name]
        )
        return member, array + other_tools


def _check_json(definition: JsonObject) -> None:
    """Raise NotJson, or TooMuch for a definition that is nested too deeply to be written."""
    try:
        _encode(definition)
    except RecursionError as error:
        raise TooMuch("the schema is nested too deeply") from error
    except UnicodeEncodeError as error:
        raise NotJson("a text in the definition has half of a surrogate pair, which UTF-8 cannot hold") from error
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise NotJson(f"the definition cannot be written as JSON: {error}") from error


def name_of(tool: Definition) -> str:
    """The name of a tool; empty if it has none."""
    name = tool.get("name")
    return name if isinstance(name, str) else ""


def _definition(parts: ProviderTool) -> JsonObject:
    if not isinstance(parts.name, str) or not parts.name:
        raise UnusableSchema("the tool has no name")
    tool: JsonObject = {"name": parts.name}
    if isinstance(parts.description, str) and parts.description:
        tool["description"] = parts.description
    if parts.schema is not None and not isinstance(parts.schema, dict):
        raise UnusableSchema(f"{constraint_texts.compact(parts.schema)} is not a schema of an object")
    tool["inputSchema"] = parts.schema or {"type": "object", "properties": {}}
    if isinstance(parts.output, dict):
        tool["outputSchema"] = parts.output
    return tool


def _cut(text: str, limit: int) -> str:
    """The first `limit` characters, cut at the end of a sentence or word in their second half if there is one."""
    if len(text) <= limit:
        return text
    head = text[: max(limit - 1, 0)]
    for mark in (". ", "\n", " "):
        end = head.rfind(mark)
        if end > limit // 2:
            return head[: end + 1].rstrip() + ("" if mark == ". " else "…")
    return head + "…"
