"""Differences between offered and approved definitions, for `fairlead diff` and the console. No I/O.

Definitions are untrusted: the time for comparing them is bounded, and invisible characters are shown as escapes.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw

from fairlead_api.documents.pins import Pinned, Pins, Sort
from fairlead_tools.definitions.printable import escape_unprintable
from fairlead_tools.definitions.scan import scan

MOST_COMPARED: Final = 400
"""Maximum number of lines of a member that is compared line by line. difflib takes quadratic time, at worst half a
second for 400 lines. A longer member is shown as a whole, the old text with `-` and the new text with `+`.
"""
CONTEXT: Final = 2
"""Number of unchanged lines that are shown before and after a change."""
MOST_LINES: Final = 1_000
MOST_CHARACTERS: Final = 100_000
"""Limits for the lines and characters of one difference; `HeldChange.cut` is set if one was exceeded."""

Change = Literal["changed", "new"]


class HeldChange(msgspec.Struct, frozen=True):
    """Definition that is held back, with its difference from the approved definition."""

    kind: Sort
    name: str
    """Name of the definition; empty for instructions."""
    change: Change
    hash: str
    """Hash by which exactly this definition is approved."""
    lines: list[str]
    """Unified diff per member: lines begin with `@@`, `-`, `+` or a blank."""
    cut: bool
    """Whether the diff was cut at its limits."""
    suspicious: list[str]
    """Sentences about hidden characters and phrases that address the model."""


def held_change(definition: Pinned, pins: Pins) -> HeldChange:
    """Compare a definition that `pins` holds back with the approved definition."""
    approved_definition = next(
        (each.definition for each in pins.approved if each.identity == definition.identity), None
    )
    lines = unify(approved_definition, definition.definition)
    shown_lines = _shorten(lines)
    return HeldChange(
        definition.sort,
        definition.name,
        "new" if approved_definition is None else "changed",
        definition.approval,
        shown_lines,
        cut=shown_lines != lines,
        suspicious=[str(finding) for finding in scan([definition])],
    )


def unify(old_definition: Raw | None, new_definition: Raw) -> list[str]:
    """Make a unified diff of the members that differ; invisible characters are shown as escapes."""
    old_members, new_members = _members(old_definition), _members(new_definition)
    lines: list[str] = []
    for member in [*new_members, *(member for member in old_members if member not in new_members)]:
        if (old_lines := old_members.get(member, [])) != (new_lines := new_members.get(member, [])):
            lines.append(f"@@ {escape_unprintable(member)} @@" if member else "@@")
            lines += _compare(old_lines, new_lines)
    if not lines and old_definition is not None:
        lines = ["@@ equal members, different JSON text @@", f"-{_raw(old_definition)}", f"+{_raw(new_definition)}"]
    return lines


def decode(definition: Raw) -> Any:
    """Decode a definition; invalid JSON is returned as text."""
    try:
        return msgspec.json.decode(definition)
    except (msgspec.MsgspecError, RecursionError):
        return _raw(definition)


def _compare(old_lines: Sequence[str], new_lines: Sequence[str]) -> list[str]:
    if old_lines and new_lines and max(len(old_lines), len(new_lines)) <= MOST_COMPARED:
        return [*difflib.unified_diff(old_lines, new_lines, lineterm="", n=CONTEXT)][3:]
    return [*(f"-{line}" for line in old_lines), *(f"+{line}" for line in new_lines)]


def _shorten(lines: list[str]) -> list[str]:
    shown_lines, remaining_characters = [], MOST_CHARACTERS
    for line in lines[:MOST_LINES]:
        if len(line) > remaining_characters:
            break
        remaining_characters -= len(line)
        shown_lines.append(line)
    return shown_lines


def _members(definition: Raw | None) -> dict[str, list[str]]:
    if definition is None:
        return {}
    value = decode(definition)
    if isinstance(value, dict):
        return {str(member): _lines(member_value) for member, member_value in value.items()}
    return {"": _lines(value)}


def _lines(value: Any) -> list[str]:
    """Split a string, or the JSON of another value, into lines."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return [escape_unprintable(line) for line in text.split("\n")]


def _raw(definition: Raw) -> str:
    return escape_unprintable(bytes(definition).decode("utf-8", "backslashreplace"))
