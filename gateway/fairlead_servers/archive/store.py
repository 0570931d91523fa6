"""Store of the archive: one SQLite file in WAL mode, which several processes can read while one ingests records.

A file is ingested in one transaction: if the process is killed, none of the file's records are stored. An ingested
record replaces the stored record with the same key. Writes are synchronous, so that acknowledged records survive a
power failure.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from fairlead_servers.archive.records import (
    AnyRecord,
    BadRecord,
    EntityRecord,
    FactRecord,
    SessionRecord,
    TurnRecord,
    bounded_lines,
    read_records,
)
from fairlead_servers.definition import SettingError
from fairlead_servers.fulltext import TOKENS

FILE: Final = "archive.sqlite"
VERSION: Final = 1
_BUSY_S: Final = 10.0
_SCHEMA: Final = f"""
CREATE TABLE sessions (id TEXT PRIMARY KEY, title TEXT, started TEXT, summary TEXT) STRICT;
CREATE TABLE turns (
    id INTEGER PRIMARY KEY, session TEXT NOT NULL, number INTEGER NOT NULL, speaker TEXT, text TEXT,
    UNIQUE (session, number)
) STRICT;
CREATE TABLE entities (
    row INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, name TEXT, kind TEXT, aliases TEXT, description TEXT
) STRICT;
CREATE TABLE facts (row INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, subject TEXT, text TEXT, session TEXT) STRICT;
CREATE VIRTUAL TABLE sessions_index USING fts5 (id UNINDEXED, title, summary, {TOKENS});
CREATE VIRTUAL TABLE turns_index USING fts5 (speaker, text, {TOKENS});
CREATE VIRTUAL TABLE entities_index USING fts5 (name, aliases, description, {TOKENS});
CREATE VIRTUAL TABLE facts_index USING fts5 (subject, text, {TOKENS});
PRAGMA user_version = {VERSION};
"""


class ArchiveError(Exception):
    """Failure to read or write the archive. The message says what to do."""


class Archive:
    """Archive in a data folder. The constructor creates the file if it is missing, and raises SettingError if that
    fails."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        try:
            with self.connect() as connection:
                self._prepare(connection)
        except ArchiveError as error:
            raise SettingError(str(error)) from error

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")  # two processes may start at once
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            for statement in _SCHEMA.split(";\n"):
                connection.execute(statement)
        connection.execute("COMMIT")
        if version > VERSION:
            raise ArchiveError(f"the archive {self.path} has the newer version {version}; update Fairlead")

    @contextmanager
    def connect(self) -> Iterator[sqlite3.Connection]:
        """Open a connection for one operation. Raises ArchiveError for all SQLite errors."""
        try:
            with closing(sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None)) as connection:
                connection.row_factory = sqlite3.Row
                connection.execute("PRAGMA synchronous = FULL")
                yield connection
        except sqlite3.Error as error:
            raise ArchiveError(
                f"the archive {self.path} cannot be used: {error}. Free space on its disk, or move the file away and "
                "ingest again"
            ) from error

    def ingest(self, path: Path) -> Counter[str]:
        """Ingest a file of JSON lines in one transaction. Returns counts by type. Raises BadRecord, ArchiveError."""
        try:
            with path.open("rb") as file:
                return self.ingest_records(read_records(bounded_lines(file), path.name))
        except OSError as error:
            raise BadRecord(f"{path} cannot be read: {error.strerror}") from error

    def ingest_records(self, records: Iterable[AnyRecord]) -> Counter[str]:
        """Ingest records in one transaction. Returns counts by type. Raises ArchiveError, and errors of the
        iterator.
        """
        counts: Counter[str] = Counter()
        with self.connect() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                for record in records:
                    _put(connection, record)
                    counts[record.type] += 1
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        return counts


def _put(connection: sqlite3.Connection, record: AnyRecord) -> None:
    """Insert a record, or replace the stored record with the same key, and update the full-text index."""
    match record:
        case SessionRecord():
            connection.execute("DELETE FROM sessions_index WHERE id = ?", (record.id,))
            connection.execute(
                "INSERT OR REPLACE INTO sessions (id, title, started, summary) VALUES (?, ?, ?, ?)",
                (record.id, record.title, record.started, record.summary),
            )
            connection.execute(
                "INSERT INTO sessions_index (id, title, summary) VALUES (?, ?, ?)",
                (record.id, record.title, record.summary),
            )
        case TurnRecord():
            connection.execute(
                "INSERT OR IGNORE INTO sessions (id, title, started, summary) VALUES (?, '', '', '')", (record.session,)
            )
            row = connection.execute(
                "INSERT INTO turns (session, number, speaker, text) VALUES (?, ?, ?, ?) ON CONFLICT (session, number) "
                "DO UPDATE SET speaker = excluded.speaker, text = excluded.text RETURNING id",
                (record.session, record.number, record.speaker, record.text),
            ).fetchone()[0]
            _index(connection, "turns_index", row, speaker=record.speaker, text=record.text)
        case EntityRecord():
            aliases = "\n".join(record.aliases)
            row = connection.execute(
                "INSERT INTO entities (id, name, kind, aliases, description) VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) "
                "DO UPDATE SET name = excluded.name, kind = excluded.kind, aliases = excluded.aliases, description = "
                "excluded.description RETURNING row",
                (record.id, record.name, record.kind, aliases, record.description),
            ).fetchone()[0]
            _index(connection, "entities_index", row, name=record.name, aliases=aliases, description=record.description)
        case FactRecord():
            row = connection.execute(
                "INSERT INTO facts (id, subject, text, session) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
                "subject = excluded.subject, text = excluded.text, session = excluded.session RETURNING row",
                (record.id, record.subject, record.text, record.session),
            ).fetchone()[0]
            _index(connection, "facts_index", row, subject=record.subject, text=record.text)


def _index(connection: sqlite3.Connection, table: str, row: int, **columns: str) -> None:
    connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (row,))
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    connection.execute(f"INSERT INTO {table} (rowid, {names}) VALUES (?, {marks})", (row, *columns.values()))
