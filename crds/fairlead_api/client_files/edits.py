"""Edits that add, replace or remove one entry of a client's configuration, without changing any other text.

JSON files may have comments and trailing commas, which stay in place. Every edited text is parsed again before it is
returned. An edit that would change anything besides the entry raises UnreadableFile. This module has no I/O.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import yaml

from fairlead_api.yaml_files import yaml_problem

Form = Literal["json", "toml", "yaml"]

_INDENT: Final = re.compile(r"^([ \t]+)\S", re.MULTILINE)
_COMMENT: Final = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING: Final = re.compile(r'("(?:\\.|[^"\\\n])*")|,(?=\s*[}\]])')
_SPACE: Final = re.compile(r"\s*")


class UnreadableFile(ValueError):
    """A configuration file that cannot be read, or cannot be edited without changing more than the entry. The message
    says why."""

    def __init__(self, message: str, replaced: str = "") -> None:
        super().__init__(message)
        self.replaced = replaced
        """Part of the file in whose place the entry has to be put; empty if it can be added."""


class MalformedFile(UnreadableFile):
    """A configuration file that is not valid JSON, TOML or YAML."""


@dataclass(frozen=True)
class Edit:
    """Replacement of the characters from `start` to `end` of a text."""

    start: int
    end: int
    text: str

    def apply(self, before: str) -> str:
        return before[: self.start] + self.text + before[self.end :]


@dataclass(frozen=True)
class Reversal:
    """Record for undoing one or more edits of an entry: the text that the edits inserted, and the text that was there
    before."""

    added: str
    removed: str

    @classmethod
    def of(cls, text: str, edit: Edit) -> Reversal:
        return cls(edit.text, text[edit.start : edit.end])

    def extend(self, text: str, edit: Edit) -> Reversal | None:
        """The reversal of the recorded edits and of the further `edit`. None if `edit` is not within `added`."""
        start = text.find(self.added)
        if not start <= edit.start <= edit.end <= start + len(self.added) or start < 0:
            return None
        inside = replace(edit, start=edit.start - start, end=edit.end - start)
        return Reversal(inside.apply(self.added), self.removed)


@dataclass(frozen=True)
class _Member:
    """A member of a JSON object, with the offsets of its name, its value and its end."""

    name: str
    start: int
    value: int
    end: int


def edit_of(text: str, member: str, name: str, entry: Mapping[str, Any] | str | None, form: Form) -> Edit:
    """The edit of `text` that sets the entry `member.name`, such as `mcpServers.github`, or removes the entry if
    `entry` is None. If `entry` is a string, it is in the file's own syntax, as `raw_entry` returns it. Raises
    UnreadableFile.
    """
    before = _decode(text, form)
    is_empty_block = form == "yaml" and before.get(member) is None
    if not is_empty_block and not isinstance(before.get(member, {}), dict):
        raise UnreadableFile(f"the member {member} is not an object", replaced=f"the member {member}")
    edit = {"json": _json, "toml": _toml, "yaml": _yaml}[form](text, member, name, entry)
    if "\r\n" in text:
        edit = replace(edit, text=edit.text.replace("\r\n", "\n").replace("\n", "\r\n"))
    if not _sets_only(edit.apply(text), before, member, name, entry, form):
        advice = f"; write its servers as tables, such as [{member}.{name}], first" if form == "toml" else ""
        raise UnreadableFile(f"the syntax of its member {member} cannot be edited automatically{advice}")
    return edit


def _sets_only(
    edited: str, before: Mapping[str, Any], member: str, name: str, entry: Mapping[str, Any] | str | None, form: Form
) -> bool:
    """Whether an edited text is valid, has the wanted entry, and differs from `before` in nothing else."""
    try:
        after = _decode(edited, form)
    except UnreadableFile:
        return False
    changed = entry_of(edited, member, name, form)
    is_wanted = changed is not None if isinstance(entry, str) else changed == entry
    return is_wanted and _without_entry(before, member, name) == _without_entry(after, member, name)


def reversal_of(text: str, member: str, name: str, made: Reversal, form: Form) -> Edit | None:
    """The edit that undoes `made`: it restores the earlier text, character for character. None if the inserted text
    does not occur exactly once, or if the edit would change more than the entry `member.name`.
    """
    start = text.find(made.added) if made.added else -1
    if start < 0 or text.find(made.added, start + 1) >= 0:
        return None
    edit = Edit(start, start + len(made.added), made.removed)
    try:
        before, after = (_decode(each, form) for each in (text, edit.apply(text)))
    except UnreadableFile:
        return None
    changes_entry = before.get(member) != after.get(member)
    return (
        edit if changes_entry and _without_entry(before, member, name) == _without_entry(after, member, name) else None
    )


def with_entry(text: str, member: str, name: str, entry: Mapping[str, Any] | str | None, form: Form) -> str:
    """The text with the entry `member.name` set, or removed if `entry` is None. Raises UnreadableFile."""
    return edit_of(text, member, name, entry, form).apply(text)


def entry_of(text: str, member: str, name: str, form: Form) -> object:
    """The entry `member.name` of the text; None if the text has no such entry. Raises UnreadableFile."""
    servers = _decode(text, form).get(member)
    return servers.get(name) if isinstance(servers, dict) else None


def _without_entry(document: Mapping[str, Any], member: str, name: str) -> dict[str, Any]:
    """The document without the entry `member.name`."""
    servers = document.get(member)
    others = {key: value for key, value in servers.items() if key != name} if isinstance(servers, dict) else {}
    return {**document, member: others}


def raw_entry(text: str, member: str, name: str, form: Form) -> str | None:
    """The entry in the file's syntax, so that `edit_of` can restore it; None if the text has no such entry."""
    if entry_of(text, member, name, form) is None:
        return None
    if form == "json":
        blank = _without_comments(text)
        servers = _find_member(_members(blank), member)
        old = _find_member(_members(blank, servers.value), name)
        return text[old.value : old.end]
    start, end = (_table if form == "toml" else _block)(text, member, name)
    return text[start:end]


def _decode(text: str, form: Form) -> dict[str, Any]:
    try:
        if form == "toml":
            document: object = tomllib.loads(text)
        elif form == "yaml":
            document = yaml.safe_load(text)
        else:
            blank = _without_comments(text)
            document = json.loads(blank) if blank.strip() else None
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise MalformedFile(f"it is not valid {form.upper()}: {yaml_problem(error)}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise UnreadableFile("its top level is not an object", replaced="the content of the file")
    return document


# JSON with comments


def _without_comments(text: str) -> str:
    """The text with comments and trailing commas blanked out; all other characters keep their offsets."""

    def blanks(match: re.Match[str]) -> str:
        return match[0] if match[1] else re.sub(r"[^\n]", " ", match[0])

    start = "\ufeff" if text.startswith("\ufeff") else ""
    plain = " " * len(start) + text[len(start) :]
    return _TRAILING.sub(blanks, _COMMENT.sub(blanks, plain))


def _members(blank: str, start: int | None = None) -> list[_Member]:
    """Members of the object at offset `start`, by default the outermost object. `blank` is valid JSON."""
    decoder, members = json.JSONDecoder(), []
    at = _after_space(blank, blank.index("{") if start is None else start) + 1
    while blank[at := _after_space(blank, at)] != "}":
        begin = at
        name, at = decoder.raw_decode(blank, at)
        value = _after_space(blank, _after_space(blank, at) + 1)
        _, end = decoder.raw_decode(blank, value)
        members.append(_Member(name, begin, value, end))
        at = _after_space(blank, end)
        at += blank[at] == ","
    return members


def _find_member(members: list[_Member], name: str) -> _Member:
    return next(each for each in members if each.name == name)


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()


def _json(text: str, member: str, name: str, entry: Mapping[str, Any] | str | None) -> Edit:
    blank = _without_comments(text)
    unit = (_INDENT.search(blank, text.startswith("\ufeff")) or ("", "  "))[1]  # a byte order mark is not an indent
    if not blank.strip():
        if entry is None:
            return Edit(0, len(text), "")
        whole = json.dumps({member: {name: _value(entry)}}, indent=2, ensure_ascii=False) + "\n"
        comments = text.rstrip()
        return Edit(len(comments), len(text), f"\n{whole}" if comments.strip("\ufeff") else whole)
    root = _members(blank)
    if member not in [each.name for each in root]:
        at = blank.index("{")
        if entry is None:
            return Edit(at, at, "")
        block = json.dumps({name: _value(entry)}, indent=unit, ensure_ascii=False)
        return _addition(text, at, member, block, unit)
    servers = _find_member(root, member)
    inside = _members(blank, servers.value)
    if name not in [each.name for each in inside]:
        if entry is None:
            return Edit(servers.value, servers.value, "")
        return _addition(text, servers.value, name, _dump(entry, unit), unit * 2)
    old = _find_member(inside, name)
    if entry is not None:
        line = blank[blank.rfind("\n", 0, old.start) + 1 : old.start]
        own = line if line and not line.strip() else unit * 2  # the file's first indent may be that of an entry
        dumped = entry if isinstance(entry, str) else _dump(entry, own[: len(own) // 2]).replace("\n", "\n" + own)
        return Edit(old.value, old.end, dumped)
    if len(inside) > 1:
        return _removal(blank, inside, old)
    return _removal(blank, root, servers) if len(root) > 1 else Edit(blank.index("{"), blank.rindex("}") + 1, "{}")


def _value(entry: Mapping[str, Any] | str) -> Any:
    return json.loads(_without_comments(entry)) if isinstance(entry, str) else entry


def _dump(entry: Mapping[str, Any] | str, unit: str) -> str:
    return entry if isinstance(entry, str) else json.dumps(entry, indent=unit, ensure_ascii=False)


def _addition(text: str, start: int, name: str, dumped: str, indent: str) -> Edit:
    """The edit that appends a member to the object at offset `start`; `indent` precedes the new line."""
    blank, line = _without_comments(text), f"\n{indent}"
    members, body = _members(blank, start), f"{line}{json.dumps(name)}: " + dumped.replace("\n", line)
    if not members:
        end = _after_space(blank, start + 1)
        outer = "" if start == blank.index("{") else indent[: len(indent) // 2]
        begin = start + 1 + len(text[start + 1 : end].rstrip())  # behind comments, which stay
        return Edit(begin, end, f"{body}\n{outer}")
    last = members[-1].end
    after = _after_space(text, last)
    if text[after : after + 1] == ",":  # a trailing comma stays, and separates the new member
        behind = _behind_comment(text, blank, after + 1)
        return Edit(behind, behind, f"{body},")
    behind = _behind_comment(text, blank, last)
    return Edit(last, behind, f",{text[last:behind]}{body}")


def _behind_comment(text: str, blank: str, at: int) -> int:
    """The offset behind a comment that ends the line of offset `at`, to which the comment belongs; `at` without one."""
    end = text.find("\n", at)
    rest = text[at:end].rstrip()
    if end < 0 or blank[at:end].strip() or rest.rfind("/*") > rest.rfind("*/"):
        return at
    return at + len(rest)


def _removal(blank: str, members: list[_Member], old: _Member) -> Edit:
    """The edit that removes a member and the comma that separates it."""
    at = members.index(old)
    if at:
        return Edit(members[at - 1].end, old.end, "")
    return Edit(old.start, members[1].start, "")


# TOML: an entry is one table of strings


def _table(text: str, member: str, name: str) -> tuple[int, int]:
    """Start and end of `[member.name]` in the text, without blank lines and comments at its end."""
    header, lines, start = f"[{member}.{name}]", text.splitlines(keepends=True), None
    for number, line in enumerate(lines):
        if start is None:
            start = number if line.split("#")[0].strip() == header else None
        elif line.lstrip().startswith("["):
            if line.strip().startswith(f"[{member}.{name}."):
                raise UnreadableFile(f"{header} has sub-tables")
            lines = lines[:number]
            break
    if start is None:
        raise UnreadableFile(f"it does not define {member}.{name} as a table {header}")
    end = len(lines)
    while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return sum(map(len, lines[:start])), sum(map(len, lines[:end]))


def _toml(text: str, member: str, name: str, entry: Mapping[str, Any] | str | None) -> Edit:
    there = entry_of(text, member, name, "toml") is not None
    if isinstance(entry, Mapping):
        values = "".join(f"{key} = {json.dumps(value)}\n" for key, value in entry.items())
        entry = f"[{member}.{name}]\n{values}"
    if not there:
        gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
        return Edit(len(text), len(text), "" if entry is None else gap + entry)
    start, end = _table(text, member, name)
    if entry is None and text[:start].endswith("\n\n"):
        start -= 1
    return Edit(start, end, entry or "")


# YAML: an entry is a block within a block


def _block(text: str, member: str, name: str) -> tuple[int, int]:
    """Start and end of the block `name` below `member`."""
    blocks = [
        (begin, end)
        for begin, end, line in _blocks(text, member)
        if re.match(rf"\s+[\"']?{re.escape(name)}[\"']?:", line)
    ]
    if len(blocks) != 1:
        raise UnreadableFile(f"the file does not have {member}.{name} as a block of lines: edit it by hand")
    return blocks[0]


def _blocks(text: str, member: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and first line of each block below the top-level key `member`."""
    at, inside, indent, open_block = 0, False, "", None
    for line in [*text.splitlines(keepends=True), "\x00"]:
        deeper = line[:1] in " \t" or not line.strip() or line.startswith("#")
        if inside and line.strip() and not line.lstrip().startswith("#"):
            lead = line[: len(line) - len(line.lstrip())]
            indent = indent or lead
            if not deeper or lead == indent:
                if open_block is not None:
                    yield open_block[0], at, open_block[1]
                open_block = (at, line) if deeper else None
            inside = deeper
        if re.match(rf"{re.escape(member)}:\s*(#.*)?$", line):
            inside = True
        at += len(line)


def _yaml(text: str, member: str, name: str, entry: Mapping[str, Any] | str | None) -> Edit:
    there = entry_of(text, member, name, "yaml") is not None
    if isinstance(entry, Mapping):
        indent = next((line[: len(line) - len(line.lstrip())] for _, _, line in _blocks(text, member)), "  ")
        block = yaml.safe_dump({name: dict(entry)}, sort_keys=False, allow_unicode=True, default_flow_style=False)
        entry = "".join(f"{indent}{line}\n" for line in block.splitlines())
    if there:
        start, end = _block(text, member, name)
        alone = entry is None and len([*_blocks(text, member)]) == 1
        if alone and (head := re.search(rf"^{re.escape(member)}:[^\n]*\n\Z", text[:start], re.MULTILINE)):
            start = head.start()
        return Edit(start, end, entry or "")
    if entry is None:
        return Edit(0, 0, "")
    blocks = [*_blocks(text, member)]
    head = re.search(rf"^{re.escape(member)}:[ \t]*(#[^\n]*)?(\n|\Z)", text, re.MULTILINE)
    if not blocks and not head and member in _decode(text, "yaml"):
        raise UnreadableFile(f"the file does not have {member} as a block of lines: edit it by hand")
    at = blocks[-1][1] if blocks else head.end() if head else len(text)
    gap = "" if not text or text[:at].endswith("\n") else "\n"
    return Edit(at, at, f"{gap}{entry}" if blocks or head else f"{gap}{member}:\n{entry}")
