"""Selects which of many repeated messages are printed: the first, second, fourth, eighth …, with their number. No I/O.

Without this selection, a server that restarts for ever would fill the output.
"""

from __future__ import annotations

import logging
from typing import Final

from fairlead_api.load import DEFAULT_NAMESPACE
from fairlead_cli.up.terminal_text import sanitize
from fairlead_mcp.refusals import without_numbers

MAX_KINDS: Final = 1_000
"""Maximum number of kinds of messages that are counted; beyond it, all counts start again."""
MAX_CHARACTERS: Final = 400
"""Maximum number of characters that are compared of a kind and of a wording, which may quote a server's output."""
MAX_WORDINGS: Final = 8
"""Maximum number of different messages of one kind that are printed on first occurrence: some servers vary each
message.
"""
_STATES: Final = ("; next start in ", " has printed nothing for ")
"""Parts of `fairlead_mcp`'s messages about a process that exited or is silent."""


class Repeats:
    """Counts messages by kind, and decides which messages of a kind are printed."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._wordings: dict[str, set[str]] = {}

    def count(self, kind: str, text: str) -> int:
        """Count a message of a kind. Returns the number of messages of this kind so far if the message is to be
        printed, else 0. Texts that differ only in numbers count as the same text.
        """
        kind = kind[:MAX_CHARACTERS]
        if len(self._counts) >= MAX_KINDS:
            self._counts.clear()
            self._wordings.clear()
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        wordings, wording = self._wordings.setdefault(kind, set()), without_numbers(text)[:MAX_CHARACTERS]
        is_new = wording not in wordings and len(wordings) < MAX_WORDINGS
        if is_new:
            wordings.add(wording)
        return count if is_new or count & (count - 1) == 0 else 0

    def forget(self, start: str) -> None:
        """Reset the counts of all kinds with this beginning."""
        for kind in [kind for kind in self._counts if kind.startswith(start)]:
            del self._counts[kind]
            self._wordings.pop(kind, None)


def times(count: int) -> str:
    """Suffix of a line that was printed before."""
    return f" ({count} times so far)" if count > 1 else ""


class FewerRepeats(logging.Filter):
    """Logging filter that passes the first, second, fourth … warning of a kind. Warnings of one logger that differ only
    in numbers are of one kind.

    Warnings that a child process has exited are of one kind per process, whatever its last output; likewise warnings
    that it has printed nothing. Of these kinds, the first warning is not passed, because the server's state already
    shows the exit or the silence.
    """

    def __init__(self) -> None:
        super().__init__()
        self._repeats = Repeats()

    def filter(self, record: logging.LogRecord) -> bool:
        """Implements logging.Filter; appends the number of repetitions to the record's message."""
        if record.levelno < logging.WARNING or record.exc_info:
            return True
        text = record.getMessage()
        is_state = record.name.startswith("fairlead_mcp.") and any(words in text for words in _STATES)
        kind = " ".join(text.split(maxsplit=4)[:4]) if is_state else text  # the server and its state
        count = self._repeats.count(f"{record.name} {without_numbers(kind)}", "")
        if not count or (count == 1 and is_state):
            return False
        record.msg = sanitize(text.removeprefix(f"{DEFAULT_NAMESPACE}/")) + times(count)
        record.args = ()
        return True
