"""Decides which of a server's definitions can be offered, and collects the faults of all of them. Pure.

A definition that cannot be offered is left out and named in the server's condition; the server's other definitions
are offered. A definition that violates the schema of MCP 2026-07-28 is left out, because clients reject a whole list
for one invalid entry; on a merged endpoint, the list contains the tools of all servers. A definition that only clients
of older revisions would reject is offered to the other clients, and the condition mentions it. A definition whose fault
has one obvious correction (`fairlead_tools.definitions.forms`) is stored as the server wrote it; gateways correct it
for their clients, and the condition mentions it. The condition also mentions names that the protocol only advises
against. A missing or meaningless schema is not replaced: models would have to guess the arguments of an invented
schema.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw

from fairlead_api.v1alpha1.causes import Cause
from fairlead_mcp import jsonrpc, members
from fairlead_mcp.parameters import InvalidAnnotation, parameters
from fairlead_tools.definitions.forms import Forms, ListedType, make_forms
from fairlead_tools.definitions.hidden import describe_hidden_characters
from fairlead_tools.definitions.printable import fit

NAME_LIMIT: Final = 256
"""Maximum characters of a name: the maximum of `spec.tools[].name`, so that every tool can be configured."""
URI_LIMIT: Final = 2048
"""Maximum characters of a URI or a URI template."""
DEFINITION_LIMIT: Final = 256 << 10
"""Maximum bytes of one definition, about 64,000 tokens. More would not fit a model's context with a conversation, and
every client of a merged endpoint would receive it with each list.
"""
CHANGES_LIMIT: Final = 200
"""Maximum characters of the changes to one definition in a message."""
MAX_NAMES: Final = 5
"""Maximum number of definitions that a message names per cause."""
_CONTROLS: Final = frozenset({"Cc", "Cf", "Zl", "Zp"})
"""General categories of Unicode that no name may contain: controls, formats, and separators of lines and paragraphs."""
_BLANK: Final = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u2065\u2800\u3164\uffa0\ufff0-\ufff8]")
"""Matches characters of other categories that show nothing: fillers, joiners, and code points reserved for formats."""
_RECOMMENDED_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
"""Names that MCP recommends (2026-07-28, tools, names; SEP-986)."""


class _SkillFile(msgspec.Struct):
    """A file of a skill, as `skills/list` describes it (SEP-2640)."""

    uri: str
    digest: str
    size: int


class _Skill(msgspec.Struct):
    """An entry of `skills/list` (SEP-2640)."""

    uri: str
    frontmatter: dict[str, Raw]
    resources: list[_SkillFile] | Literal["dynamic"]


class _NamedDefinition(msgspec.Struct, rename="camel"):
    """Members that identify a definition in a message even if the rest of it cannot be read."""

    name: Any = None
    uri: Any = None
    uri_template: Any = None


@dataclass(frozen=True)
class DefinitionKind:
    """A kind of definition: its noun in messages, the member that identifies it, and its type in MCP's schema."""

    noun: str
    member: str
    schema_type: ListedType | None
    """None for a kind that MCP's schema lacks."""
    limit: int = NAME_LIMIT
    """Maximum characters of the identifying member."""


TOOL: Final = DefinitionKind("tool", "name", ListedType.TOOL)
PROMPT: Final = DefinitionKind("prompt", "name", ListedType.PROMPT)
RESOURCE: Final = DefinitionKind("resource", "uri", ListedType.RESOURCE, URI_LIMIT)
TEMPLATE: Final = DefinitionKind("resource template", "uri_template", ListedType.TEMPLATE, URI_LIMIT)
SKILL: Final = DefinitionKind("skill", "uri", None, URI_LIMIT)

_read_skill = msgspec.json.Decoder(_Skill).decode
_read_identity = msgspec.json.Decoder(_NamedDefinition).decode


_MEMBERS: Final = members.ProtectedNames(
    {
        "_meta",
        "annotations",
        "arguments",
        "description",
        "execution",
        "icons",
        "inputSchema",
        "mimeType",
        "name",
        "outputSchema",
        "size",
        "title",
        "uri",
        "uriTemplate",
    }
)
"""Members of a definition of any kind (MCP 2026-07-28, schema)."""


@dataclass(frozen=True)
class Fault:
    """One fault of one definition."""

    cause: Cause
    noun: str
    """Noun for a definition of this kind: "tool", "prompt", …"""
    name: str
    """Name of the definition, made printable and bounded for a message."""
    why: str
    """The fault in words; empty if `cause` says enough."""
    left_out: bool = True
    """Whether the definition is offered to no client because of the fault."""


@dataclass
class DefinitionFilter:
    """Selects the usable definitions of one server's listings, and collects the faults of all definitions.

    `in_headers`: whether the transport also sends tool arguments in HTTP headers, so that `x-mcp-header` is checked.
    """

    in_headers: bool = False
    faults: list[Fault] = field(default_factory=list)

    def select_usable(self, items: Iterable[Raw], kind: DefinitionKind) -> list[tuple[str, Raw]]:
        """The definitions that can be offered, with their names, in the listed order."""
        by_name: dict[str, Raw] = {}
        for number, raw in enumerate(items, 1):
            name = self._name(raw, kind, number)
            if name is None:
                continue
            if name in by_name:
                self._note(Cause.DUPLICATE_NAMES, kind, name, "listed more than once; the first is offered")
                continue
            by_name[name] = raw
            if kind is TOOL and not _RECOMMENDED_NAME.fullmatch(name):
                self._note(Cause.UNUSUAL_NAMES, kind, name, "", left_out=False)
        return list(by_name.items())

    def _name(self, raw: Raw, kind: DefinitionKind, number: int) -> str | None:
        """The name of a definition that can be offered; else record a fault and return None."""
        size = memoryview(raw).nbytes
        if size > DEFINITION_LIMIT:
            why = f"{size} bytes; the maximum is {DEFINITION_LIMIT}"
            self._note(Cause.DEFINITIONS_TOO_LARGE, kind, _label(raw, number), why)
            return None
        try:
            bytes(raw).decode()
            ambiguity = _ambiguity(raw)
            if ambiguity:
                self._note(Cause.INVALID_DEFINITIONS, kind, _label(raw, number), ambiguity)
                return None
            forms = None if kind.schema_type is None else make_forms(bytes(raw), kind.schema_type)
            refusal = forms.modern.refusal if forms is not None else ""
            if refusal:
                cause = Cause.INVALID_SCHEMAS if "inputSchema" in refusal else Cause.INVALID_DEFINITIONS
                self._note(cause, kind, _label(raw, number), refusal)
                return None
            name = getattr(_read_skill(raw) if forms is None else _read_identity(raw), kind.member)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._note(Cause.INVALID_DEFINITIONS, kind, _label(raw, number), _error_text(error))
            return None
        fault = _name_fault(name, kind.limit)
        if fault:
            self._note(Cause.INVALID_NAMES, kind, name or _number_label(number), fault)
            return None
        fault = self._header_fault(raw) if kind is TOOL else ""
        if fault:
            self._note(Cause.INVALID_SCHEMAS, kind, name, fault)
            return None
        if forms is not None:
            self._note_changes(kind, name, forms)
        return str(name)

    def _note_changes(self, kind: DefinitionKind, name: str, forms: Forms) -> None:
        if forms.legacy.changes:  # includes the changes of the modern form
            changes = fit("; ".join(forms.legacy.changes), CHANGES_LIMIT)
            self._note(Cause.MENDED_DEFINITIONS, kind, name, changes, left_out=False)
        if forms.legacy.refusal:  # the definition is offered to modern clients
            self._note(Cause.INVALID_SCHEMAS, kind, name, fit(forms.legacy.refusal, CHANGES_LIMIT), left_out=False)

    def _header_fault(self, raw: Raw) -> str:
        if not self.in_headers:
            return ""
        try:
            parameters(bytes(raw))
        except InvalidAnnotation as error:
            return fit(str(error))
        return ""

    def _note(self, cause: Cause, kind: DefinitionKind, name: str, reason: str, *, left_out: bool = True) -> None:
        self.faults.append(Fault(cause, kind.noun, fit(name), reason, left_out))


def _ambiguity(raw: Raw) -> str:
    """Fault of a definition that JSON parsers read differently; empty if there is none.

    A client could otherwise list a name, or show a model a description, that was never checked here.
    """
    decoded = jsonrpc.decode_object(raw)
    try:
        is_repeated = members.has_repeated_member(raw)
    except jsonrpc.UNREADABLE:  # a number is too large for Python: compare with the re-encoded members instead
        encoded = jsonrpc.encode(decoded)
        is_repeated = msgspec.json.format(encoded, indent=-1) != msgspec.json.format(bytes(raw), indent=-1)
    return "an object has a member twice" if is_repeated else _MEMBERS.explain_misread(decoded, "the definition") or ""


def _name_fault(name: str, limit: int) -> str:
    """Fault of a definition's name or URI; empty if there is no fault."""
    if not name:
        return "empty"
    if len(name) > limit:
        return f"{len(name)} characters; the maximum is {limit}"
    if any(_is_control(character) for character in name):
        return "contains control characters"
    if blank := _BLANK.search(name):
        return f"contains the invisible character U+{ord(blank.group()):04X}"
    hidden = describe_hidden_characters(name)
    return f"contains {hidden}" if hidden else ""


def _is_control(character: str) -> bool:
    """Whether a character controls a terminal, is invisible, changes the text direction, or begins a line.

    Such characters make one name look like another in a log or a prompt.
    """
    return unicodedata.category(character) in _CONTROLS


def _label(raw: Raw, number: int) -> str:
    """URI or name of a definition for a message, or its number in the listing if it has neither."""
    try:
        identity = _read_identity(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _number_label(number)
    identifier = next(
        (text for text in (identity.uri, identity.uri_template, identity.name) if isinstance(text, str)), ""
    )
    return identifier or _number_label(number)


def _number_label(number: int) -> str:
    return f"no. {number}"


def _error_text(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
