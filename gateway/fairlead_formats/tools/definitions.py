"""Definitions MCP → provider and back: what all formats do alike.

Pure module. A `ToolFormat` is an `Envelope` (where the parts of a tool stand), the choice of a schema target, and
limits; `providers` has them. Conversion is per tool: one that cannot be converted is refused in the report, and the
others go over.
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
    Converted,
    Definition,
    Format,
    JsonObject,
    Loss,
    Options,
    Original,
    Read,
    array_of,
)

log = logging.getLogger(__name__)

FAULT: Final = "the converter failed on it"
MAX_NAME: Final = 1024
"""Characters of a source name; MCP recommends 128."""

_CARRIED: Final = frozenset({"name", "description", "inputSchema"})
_ELSEWHERE: Final = {
    "title": "the format has no title of a tool",
    "annotations": "the format has no annotations",
    "outputSchema": "the format has no schema of results",
    "_meta": "the format has no metadata",
    "icons": "the format has no icons",
}


Targets: TypeAlias = tuple[SchemaTarget, SchemaTarget | None]
"""The schema rules that a model reads, and the strict ones where strict is asked for and exists. A name that tells
nothing of the model gets the narrowest of the format."""


class ProvidersOwn(UnusableSchema):
    """A tool that a provider runs itself, or something else that only its own format has."""


class PreparedTool(msgspec.Struct, frozen=True):
    """One converted tool that lacks its name. Can be kept as long as the definition does not change."""

    definition: JsonObject | None
    """In the target's form, under an empty name; None for a refused tool."""
    losses: tuple[Loss, ...] = ()
    properties: dict[str, str] = {}
    """Names of properties in the target's form to the original ones, where they differ."""


class Parts(msgspec.Struct, frozen=True):
    """Parts of one tool, as an envelope takes them."""

    name: str
    description: str
    schema: JsonObject
    strict: bool | None
    """None: nobody asked."""
    options: Options
    output: JsonObject | None = None


class ProviderTool(msgspec.Struct, frozen=True):
    """Parts of one tool in a provider's form, as its envelope reads them."""

    name: Any
    description: Any = None
    schema: Any = None
    output: Any = None
    lost: tuple[tuple[str, str, str], ...] = ()
    """(path, keyword, why) of what MCP has no place for."""


class Envelope(msgspec.Struct, frozen=True):
    """Places of a tool's parts in one provider's request."""

    write: Callable[[Parts], JsonObject]
    rename: Callable[[JsonObject, str], JsonObject]
    """A written tool under its name; shares all else with what it was given."""
    read: Callable[[JsonObject], ProviderTool]
    """Raises UnusableSchema for a tool that is not a function."""
    request: Callable[[list[Definition]], JsonObject]
    unpack: Callable[[Any], list[Any]]
    """The tools of a request, of a list, or of one tool alone."""
    output: bool = False
    """Whether a tool carries the schema of its result."""
    grouped: bool = False
    """Whether functions are a group of their own among the tools."""


class FormatLimits(msgspec.Struct, frozen=True):
    """Limits of one format on the tools of a request; None: no limit is known."""

    max_tools: int | None = None
    max_description: int | None = None
    """Characters of a description."""
    needs_description: bool = False
    """Whether an empty description is refused."""
    max_strict: int | None = None
    """Strict tools among those of one request."""


NO_LIMITS: Final = FormatLimits()


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
    ) -> None:
        self.name = name
        self.title = title
        self.aliases = aliases
        self.envelope = envelope
        self._targets = targets
        self.max_tools = limits.max_tools
        self._limits = limits

    def __repr__(self) -> str:
        return f"<ToolFormat {self.name}>"

    def request(self, tools: Sequence[Definition]) -> JsonObject:
        return self.envelope.request(list(tools))

    def convert(self, tools: Sequence[Definition], options: Options = DEFAULT, names: Names | None = None) -> Converted:
        return self.assemble(tools, [self.prepare(tool, options) for tool in tools], names)

    def assemble(
        self, tools: Sequence[Definition], prepared: Sequence[PreparedTool], names: Names | None = None
    ) -> Converted:
        """Prepared tools under their names. Of two tools of one name the first counts."""
        used = [name_of(tool) for tool in tools]
        mapping = names or Names(
            name for name, ready in zip(used, prepared, strict=True) if name and ready.definition is not None
        )
        out: list[JsonObject] = []
        report: list[Loss] = []
        properties: dict[str, dict[str, str]] = {}
        seen: set[str] = set()
        strict = 0
        max_strict = self._limits.max_strict
        rename, forward = self.envelope.rename, mapping.forward
        for name, ready in zip(used, prepared, strict=True):
            report += ready.losses
            if ready.definition is None:
                continue
            if name in seen or name not in forward:
                why = "another tool has this name" if name in seen else "the names given do not hold this tool"
                report.append(Loss(name, "/name", "name", Action.REFUSED, why))
                continue
            seen.add(name)
            written = rename(ready.definition, forward[name])
            strict += written.get("strict") is True
            if max_strict is not None and strict > max_strict and written.pop("strict", False):
                why = f"a request may hold {max_strict} strict tools"
                report.append(Loss(name, "", "strict", Action.NON_STRICT, why))
            out.append(written)
            if ready.properties:
                properties[forward[name]] = ready.properties
        return Converted(tuple(out), mapping, tuple(report), properties)

    def prepare(self, tool: Definition, options: Options = DEFAULT) -> PreparedTool:
        """One tool but for its name. Never raises for what the definition holds."""
        name = name_of(tool)
        try:
            return self._convert(tool, name, options)
        except (UnusableSchema, TooMuch) as error:
            return PreparedTool(None, (Loss(name, "/inputSchema", "inputSchema", Action.REFUSED, str(error)),))
        except Exception as error:
            log.exception("The conversion of %r to %s failed", name[:128], self.name)
            why = f"{FAULT}: {type(error).__name__}"
            return PreparedTool(None, (Loss(name, "/inputSchema", "inputSchema", Action.REFUSED, why),))

    def _convert(self, tool: Definition, name: str, options: Options) -> PreparedTool:
        if not name or len(name) > MAX_NAME:
            why = "a tool needs a name" if not name else f"the name is longer than {MAX_NAME} characters"
            return PreparedTool(None, (Loss(name[:64], "/name", "name", Action.REFUSED, why),))
        lax, strict = self._targets(options)
        outcome = convert(tool.get("inputSchema"), lax, strict)
        losses = [
            Loss(name, f"/inputSchema{path}", keyword, action, why) for path, keyword, action, why in outcome.losses
        ]
        if len(tool) > len(_CARRIED):
            self._others(tool, name, losses)
        output = tool.get("outputSchema") if self.envelope.output else None
        description = self._description(tool, name, outcome, losses)
        strict_outcome = outcome.strict if options.strict else None
        written = self.envelope.write(
            Parts(
                "", description, outcome.schema, strict_outcome, options, output if isinstance(output, dict) else None
            )
        )
        return PreparedTool(written, tuple(losses), outcome.names)

    def _others(self, tool: Definition, name: str, losses: list[Loss]) -> None:
        for member in tool:
            if member in _CARRIED or (member == "outputSchema" and self.envelope.output):
                continue
            why = _ELSEWHERE.get(member, "the format has no such member")
            losses.append(Loss(name, f"/{member}", member, Action.DROPPED, why))

    def _description(self, tool: Definition, name: str, outcome: ConvertedSchema, losses: list[Loss]) -> str:
        given = tool.get("description")
        text = given if isinstance(given, str) else ""
        if given is not None and not isinstance(given, str):
            losses.append(Loss(name, "/description", "description", Action.DROPPED, "the description is not text"))
        if not text.strip() and self._limits.needs_description:
            title = tool.get("title")
            text = title if isinstance(title, str) and title.strip() else name
            losses.append(Loss(name, "/description", "description", Action.REWRITTEN, "a description may not be empty"))
        limit = self._limits.max_description
        notes = outcome.notes
        if limit is not None and len(text) + len(notes) + 2 > limit and (len(text) > limit or notes):
            shorter = _cut(text, limit - len(notes) - 2 if notes else limit)
            if shorter != text:
                why = f"descriptions of more than {limit} characters are refused"
                losses.append(Loss(name, "/description", "description", Action.DROPPED, why))
            text = shorter
        return constraint_texts.append(text, notes)[:limit] if notes else text

    def read(self, payload: object) -> Read:
        tools: list[JsonObject] = []
        report: list[Loss] = []
        originals: list[Original] = []
        for position, tool in enumerate(self.envelope.unpack(payload)):
            losses: tuple[Loss, ...]
            try:
                if not isinstance(tool, dict):
                    raise UnusableSchema(f"{constraint_texts.compact(tool)} is not a tool")
                parts = self.envelope.read(tool)
                tools.append(_definition(parts))
                losses = tuple(Loss(parts.name, at, word, Action.DROPPED, why) for at, word, why in parts.lost)
                originals.append(Original(parts.name, tool, losses))
            except (UnusableSchema, TooMuch, RecursionError) as error:
                losses = (Loss(f"#{position}", "", "", Action.REFUSED, str(error)),)
                if isinstance(error, ProvidersOwn):
                    originals.append(Original("", tool, losses))
            report += losses
        within = {id(inner) for each in originals if not each.name for inner in each.definition.get("tools") or ()}
        return Read(tuple(tools), tuple(report), tuple(each for each in originals if id(each.definition) not in within))

    def like(self, other: Format) -> bool:
        """Whether a definition in the other format is one in this, as it is."""
        return isinstance(other, ToolFormat) and other.envelope is self.envelope

    def rename(self, original: Original, name: str) -> JsonObject:
        """A definition in this form under a name; untouched where that is its own."""
        return original.definition if name == original.name else self.envelope.rename(original.definition, name)

    def beside(self, tools: Sequence[Definition], originals: Sequence[Original]) -> tuple[str, list[Any]]:
        """Where in a request the array is that holds converted tools and originals (a JSON Pointer), and that array."""
        named = [original.definition for original in originals if original.name or not self.envelope.grouped]
        member, array = array_of(self.envelope.request([*tools, *named]))
        others = [] if not self.envelope.grouped else [each.definition for each in originals if not each.name]
        return member, array + others


def name_of(tool: Definition) -> str:
    """The name of a tool; empty where it has none."""
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
    """The beginning of a text, up to the end of a sentence or word where one is near."""
    if len(text) <= limit:
        return text
    head = text[: max(limit - 1, 0)]
    for mark in (". ", "\n", " "):
        end = head.rfind(mark)
        if end > limit // 2:
            return head[: end + 1].rstrip() + ("" if mark == ". " else "…")
    return head + "…"
