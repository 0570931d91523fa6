"""Thinning of repeated messages: the first, second, fourth, eighth … one is printed, with their number. Pure.

For a server that is started again for ever, and whose every start would be another line.
"""

from __future__ import annotations

import logging
from typing import Final

from fairlead_api.load import DEFAULT_NAMESPACE
from fairlead_cli.up.terminal_text import harmless
from fairlead_mcp.refusals import without_numbers

MOST_KINDS: Final = 1_000
"""Remembered; beyond that all begin again."""
MOST_CHARACTERS: Final = 400
"""Compared of a kind and of a wording; they may hold what a server printed."""
MOST_WORDINGS: Final = 8
"""Different messages of one kind that are printed at their first time: some servers end in other words each time."""
_STATES: Final = ("; next start in ", " has printed nothing for ")
"""In what `fairlead_mcp` says of a process that ended or is silent."""


class Repeats:
    """Counts by kind; a kind is what people take for the same thing."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._wordings: dict[str, set[str]] = {}

    def count(self, kind: str, text: str) -> int:
        """How often it happened so far, where it is to be printed, else 0. Numbers in `text` do not count."""
        kind = kind[:MOST_CHARACTERS]
        if len(self._counts) >= MOST_KINDS:
            self._counts.clear()
            self._wordings.clear()
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        wordings, wording = self._wordings.setdefault(kind, set()), without_numbers(text)[:MOST_CHARACTERS]
        fresh = wording not in wordings and len(wordings) < MOST_WORDINGS
        if fresh:
            wordings.add(wording)
        return count if fresh or count & (count - 1) == 0 else 0

    def forget(self, start: str) -> None:
        """All kinds that begin so begin again."""
        for kind in [kind for kind in self._counts if kind.startswith(start)]:
            del self._counts[kind]
            self._wordings.pop(kind, None)


def times(count: int) -> str:
    """Behind a line that was told before."""
    return f" ({count} times so far)" if count > 1 else ""


class FewerRepeats(logging.Filter):
    """Lets the first, second, fourth … warning of a kind through: same logger, same words but for numbers.

    Ends of a child process are of one kind whatever its last words; the first is shown as the state of its server,
    as is its silence.
    """

    def __init__(self) -> None:
        super().__init__()
        self._repeats = Repeats()

    def filter(self, record: logging.LogRecord) -> bool:
        """Implements logging.Filter; counts, and says in the record how often it was."""
        if record.levelno < logging.WARNING or record.exc_info:
            return True
        text = record.getMessage()
        ended = record.name.startswith("fairlead_mcp.") and any(words in text for words in _STATES)
        kind = " ".join(text.split(maxsplit=4)[:4]) if ended else text  # the server, and what became of it
        count = self._repeats.count(f"{record.name} {without_numbers(kind)}", "")
        if not count or (count == 1 and ended):
            return False
        record.msg = harmless(text.removeprefix(f"{DEFAULT_NAMESPACE}/")) + times(count)
        record.args = ()
        return True
