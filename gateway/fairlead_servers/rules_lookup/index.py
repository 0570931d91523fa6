"""In-memory full-text index of the rules of games, which is rebuilt when a file changes."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from fairlead_servers.definition import SettingError
from fairlead_servers.fulltext import TOKENS, matches
from fairlead_servers.rules_lookup.files import GameRule, read_rules, rule_files

CHECK_INTERVAL_S: Final = 2.0
"""Seconds between two checks of the files."""
_log: Final = logging.getLogger(__name__)


class RuleIndex:
    """Full-text index of the rules in folders. The constructor raises SettingError for unreadable files.

    If a file becomes unreadable later, a warning is logged, and the previous rules stay.
    """

    def __init__(self, *folders: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._folders = folders
        self._clock = clock
        self._lock = threading.Lock()
        self._file_state = self._state()
        """Modification time and size of each file that was read, to detect changes."""
        self._checked_at = clock()
        """Time of the last check for changes, by `clock`."""
        self.rules = read_rules(*folders)
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)  # the lock serializes access
        weakref.finalize(self, self._connection.close)  # Python 3.13 and later warn about unclosed connections
        self._connection.row_factory = sqlite3.Row
        self._connection.execute(
            f"CREATE VIRTUAL TABLE rules USING fts5 (id UNINDEXED, system UNINDEXED, title, text, {TOKENS})"
        )
        _fill(self._connection, self.rules)

    def systems(self) -> list[str]:
        """Game systems, sorted."""
        return sorted({rule.system for rule in self.rules.values()})

    def search(self, query: str, system: str, limit: int) -> list[GameRule]:
        """Rules that match a query, best match first. `system`: game system to search; empty for all. Raises ToolError
        for a query without words.
        """
        with self._lock:
            rows = matches(
                self._connection,
                "SELECT id FROM rules WHERE rules MATCH ? AND (? = '' OR system = ?) ORDER BY bm25(rules, 0, 0, 5.0, "
                "1.0) LIMIT ?",
                query,
                limit,
                system,
                system,
            )
            return [self.rules[row["id"]] for row in rows]

    def refresh(self) -> None:
        """Read the files again if any of them has changed. Checks for changes at most every `CHECK_INTERVAL_S`
        seconds.
        """
        with self._lock:
            now = self._clock()
            if now < self._checked_at + CHECK_INTERVAL_S:
                return
            self._checked_at = now
            state = self._state()
            if state == self._file_state:
                return
            self._file_state = state
            try:
                rules = read_rules(*self._folders)
            except SettingError as error:
                _log.warning("The rules were not read again, so the previous rules stay in use: %s", error)
                return
            self._connection.execute("DELETE FROM rules")
            _fill(self._connection, rules)
            self.rules = rules

    def _state(self) -> dict[Path, tuple[int, int]]:
        state = {}
        for path in rule_files(*self._folders):
            with suppress(FileNotFoundError):  # removed since the folder was listed
                stat = path.stat()
                state[path] = (stat.st_mtime_ns, stat.st_size)
        return state


def _fill(connection: sqlite3.Connection, rules: dict[str, GameRule]) -> None:
    connection.executemany(
        "INSERT INTO rules (id, system, title, text) VALUES (?, ?, ?, ?)",
        [(rule.id, rule.system, rule.title, rule.text) for rule in rules.values()],
    )
