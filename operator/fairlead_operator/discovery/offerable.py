"""Decides which of a server's definitions can be offered, and names the faults of the others. Pure.

A definition that cannot be offered is left out and named in the server's condition; the rest of its server stays. What
breaks the protocol's shape is left out because clients refuse a whole list for one bad entry, and with it the tools of
every other server on a merged endpoint. What is clear in meaning (`fairlead_tools.definitions.forms`) is kept as the
server wrote it, mended by each gateway for the clients that it has, and mentioned; so is what the protocol merely
advises against. Nothing is made up: models would guess at the arguments of a made-up schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw

from fairlead_api.v1alpha1.causes import Cause
from fairlead_mcp import jsonrpc, members
from fairlead_mcp.parameters import InvalidAnnotation, parameters
from fairlead_tools.definitions.forms import Forms, ListedType, make_forms
from fairlead_tools.definitions.printable import fit

NAME_LIMIT: Final = 256
"""Characters of a name: what `spec.tools[].name` takes, so that every tool can be configured."""
URI_LIMIT: Final = 2048
"""Characters of a URI or a URI template."""
DEFINITION_LIMIT: Final = 256 << 10
"""Bytes of one definition, about 64,000 tokens: more fits no model's context beside a conversation, and every client
of a merged endpoint would have to take it in with each list."""
SHOWN: Final = 200
"""Characters of what was mended in one definition, in a message."""
SHOWN_NAMES: Final = 5
"""Definitions that a message names for each thing that is wrong."""
_USUAL: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
"""MCP 2026-07-28, tools, names (SEP-986): what a name SHOULD be."""


class _SkillFile(msgspec.Struct):
    uri: str
    digest: str
    size: int


class _Skill(msgspec.Struct):
    """An entry of `skills/list` (SEP-2640)."""

    uri: str
    frontmatter: dict[str, Raw]
    resources: list[_SkillFile] | Literal["dynamic"]


class _NamedDefinition(msgspec.Struct, rename="camel"):
    """Members that name a definition in a message, where nothing else of it can be read."""

    name: Any = None
    uri: Any = None
    uri_template: Any = None


@dataclass(frozen=True)
class DefinitionKind:
    """One sort of definition: its word for people, the member that identifies it, and its type in MCP's schema."""

    word: str
    member: str
    listed: ListedType | None
    """None for what MCP's schema does not have."""
    limit: int = NAME_LIMIT


TOOL: Final = DefinitionKind("tool", "name", ListedType.TOOL)
PROMPT: Final = DefinitionKind("prompt", "name", ListedType.PROMPT)
RESOURCE: Final = DefinitionKind("resource", "uri", ListedType.RESOURCE, URI_LIMIT)
TEMPLATE: Final = DefinitionKind("resource template", "uri_template", ListedType.TEMPLATE, URI_LIMIT)
SKILL: Final = DefinitionKind("skill", "uri", None, URI_LIMIT)

_read_skill = msgspec.json.Decoder(_Skill).decode
_read_identity = msgspec.json.Decoder(_NamedDefinition).decode


_MEMBERS: Final = members.Known(
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
    """One thing that is wrong with one definition."""

    cause: Cause
    word: str
    """Noun for a definition of this kind: "tool", "prompt", …"""
    name: str
    """Name of the definition, fit for a message."""
    why: str
    left_out: bool = True


@dataclass
class DefinitionFilter:
    """Collects the faults of one server's listings. `in_headers`: whether its tools may have arguments that travel in
    headers too.
    """

    in_headers: bool = False
    faults: list[Fault] = field(default_factory=list)

    def usable(self, items: Iterable[Raw], kind: DefinitionKind) -> list[tuple[str, Raw]]:
        """The definitions that can be offered, by name, in the order in which they were listed."""
        by_name: dict[str, Raw] = {}
        for number, raw in enumerate(items, 1):
            name = self._name(raw, kind, number)
            if name is None:
                continue
            if name in by_name:
                self._note(Cause.DUPLICATE_NAMES, kind, name, "listed more than once; the first is offered")
                continue
            by_name[name] = raw
            if kind is TOOL and not _USUAL.fullmatch(name):
                self._note(Cause.UNUSUAL_NAMES, kind, name, "", left_out=False)
        return list(by_name.items())

    def _name(self, raw: Raw, kind: DefinitionKind, number: int) -> str | None:
        """The name of a definition that can be offered, otherwise None and a fault."""
        size = memoryview(raw).nbytes
        if size > DEFINITION_LIMIT:
            why = f"{size} bytes; a definition may have {DEFINITION_LIMIT}"
            self._note(Cause.DEFINITIONS_TOO_LARGE, kind, _label(raw, number), why)
            return None
        try:
            bytes(raw).decode()
            misread = _misread(raw)
            if misread:
                self._note(Cause.INVALID_DEFINITIONS, kind, _label(raw, number), misread)
                return None
            forms = None if kind.listed is None else make_forms(bytes(raw), kind.listed)
            refusal = forms.modern.refusal if forms is not None else ""
            if refusal:
                cause = Cause.INVALID_SCHEMAS if "inputSchema" in refusal else Cause.INVALID_DEFINITIONS
                self._note(cause, kind, _label(raw, number), refusal)
                return None
            name = getattr(_read_skill(raw) if forms is None else _read_identity(raw), kind.member)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._note(Cause.INVALID_DEFINITIONS, kind, _label(raw, number), _words(error))
            return None
        wrong = _wrong_name(name, kind.limit)
        if wrong:
            self._note(Cause.INVALID_NAMES, kind, name or _number_label(number), wrong)
            return None
        wrong = self._wrong_header(raw) if kind is TOOL else ""
        if wrong:
            self._note(Cause.INVALID_SCHEMAS, kind, name, wrong)
            return None
        if forms is not None:
            self._note_changes(kind, name, forms)
        return str(name)

    def _note_changes(self, kind: DefinitionKind, name: str, forms: Forms) -> None:
        if forms.legacy.changes:  # those of the modern form are among them
            changes = fit("; ".join(forms.legacy.changes), SHOWN)
            self._note(Cause.MENDED_DEFINITIONS, kind, name, changes, left_out=False)
        if forms.legacy.refusal:
            self._note(Cause.INVALID_SCHEMAS, kind, name, fit(forms.legacy.refusal, SHOWN), left_out=False)

    def _wrong_header(self, raw: Raw) -> str:
        if not self.in_headers:
            return ""
        try:
            parameters(bytes(raw))
        except InvalidAnnotation as error:
            return fit(str(error))
        return ""

    def _note(self, cause: Cause, kind: DefinitionKind, name: str, why: str, *, left_out: bool = True) -> None:
        self.faults.append(Fault(cause, kind.word, fit(name), why, left_out))


def _misread(raw: Raw) -> str:
    """Members that clients may read otherwise than they are read here: they would list a name, or show a model a
    description, that nobody has looked at.
    """
    own = jsonrpc.decode_object(raw)
    try:
        twice = members.has_repeated_member(raw)
    except jsonrpc.UNREADABLE:  # a number too large for Python is offered all the same: its own members, then
        twice = msgspec.json.format(jsonrpc.encode(own), indent=-1) != msgspec.json.format(bytes(raw), indent=-1)
    return "a member comes twice" if twice else _MEMBERS.misread(own, "it") or ""


def _wrong_name(name: str, limit: int) -> str:
    if not name:
        return "empty"
    if len(name) > limit:
        return f"{len(name)} characters; a name may have {limit}"
    if any(_is_control(character) for character in name):
        return "holds control characters"
    return ""


def _is_control(character: str) -> bool:
    """C0, DEL, C1, and what turns text around or is not seen: in a log or a prompt, it passes for another name."""
    code = ord(character)
    return code < 0x20 or 0x7F <= code < 0xA0 or 0x200B <= code <= 0x200F or 0x2028 <= code <= 0x202E or code == 0xFEFF


def _label(raw: Raw, number: int) -> str:
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


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
