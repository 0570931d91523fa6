"""Offered definitions against approved ones, for people to read: `fairlead diff` and the console show the same.

Pure module. Definitions are a stranger's: the time that their comparison takes is bounded, and whatever cannot be seen
is shown as an escape.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw

from fairlead_api.documents.pins import Pinned, Pins, Sort
from fairlead_tools.definitions.printable import visible
from fairlead_tools.definitions.scan import scan

MOST_COMPARED: Final = 400
"""Lines of a member, before and after, that are compared one by one: what difflib does is quadratic in them, and half a
second at worst for these. A longer one is shown whole, once with `-` and once with `+`."""
CONTEXT: Final = 2
"""Unchanged lines around a change."""
MOST_LINES: Final = 1_000
MOST_CHARACTERS: Final = 100_000
"""Bounds of one difference; `HeldChange.cut` says that it had more."""

Change = Literal["changed", "new"]


class HeldChange(msgspec.Struct, frozen=True):
    """One definition that is held back, against the approved one of its place."""

    kind: Sort
    name: str
    """Empty for instructions."""
    change: Change
    hash: str
    """Approves this definition, in these bytes, and no other."""
    lines: list[str]
    """Unified diff by members: a line begins with `@@`, `-`, `+` or a blank."""
    cut: bool
    """Whether the diff has more lines or characters than a person is shown."""
    suspicious: list[str]
    """Sentences about what is hidden in it, or speaks to the model."""


def held_change(definition: Pinned, pins: Pins) -> HeldChange:
    """The difference of one of the definitions that `pins` holds back."""
    old = next((each.definition for each in pins.approved if each.identity == definition.identity), None)
    lines = unify(old, definition.definition)
    shown = _within(lines)
    return HeldChange(
        definition.sort,
        definition.name,
        "new" if old is None else "changed",
        definition.approval,
        shown,
        cut=shown != lines,
        suspicious=[str(finding) for finding in scan([definition])],
    )


def unify(before: Raw | None, after: Raw) -> list[str]:
    """The members that differ, as a unified diff of their JSON; whatever cannot be seen is shown as an escape."""
    old, new = _members(before), _members(after)
    lines: list[str] = []
    for member in [*new, *(member for member in old if member not in new)]:
        if (before_words := old.get(member, [])) != (says := new.get(member, [])):
            lines.append(f"@@ {visible(member)} @@" if member else "@@")
            lines += _compare(before_words, says)
    if not lines and before is not None:
        lines = ["@@ the same members, written otherwise @@", f"-{_raw(before)}", f"+{_raw(after)}"]
    return lines


def decode(definition: Raw) -> Any:
    """A definition as a JSON value; its text where it is none."""
    try:
        return msgspec.json.decode(definition)
    except (msgspec.MsgspecError, RecursionError):
        return _raw(definition)


def _compare(before: Sequence[str], after: Sequence[str]) -> list[str]:
    if before and after and max(len(before), len(after)) <= MOST_COMPARED:
        return [*difflib.unified_diff(before, after, lineterm="", n=CONTEXT)][3:]
    return [*(f"-{line}" for line in before), *(f"+{line}" for line in after)]


def _within(lines: list[str]) -> list[str]:
    shown, left = [], MOST_CHARACTERS
    for line in lines[:MOST_LINES]:
        if len(line) > left:
            break
        left -= len(line)
        shown.append(line)
    return shown


def _members(definition: Raw | None) -> dict[str, list[str]]:
    if definition is None:
        return {}
    value = decode(definition)
    if isinstance(value, dict):
        return {str(member): _lines(inside) for member, inside in value.items()}
    return {"": _lines(value)}


def _lines(value: Any) -> list[str]:
    """A text line by line, anything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return [visible(line) for line in text.split("\n")]


def _raw(definition: Raw) -> str:
    return visible(bytes(definition).decode("utf-8", "backslashreplace"))
