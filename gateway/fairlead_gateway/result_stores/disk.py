"""Stores tool results in an SQLite file. Without Redis, results then survive a restart, and may be larger than memory.

One thread owns the database and also deletes expired results. Keys are digests of principals and session ids, never the
plain values. Writes are not synchronized to the disk: after a power loss the file may be unreadable, and a new file is
created.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, TypeVar

from fairlead_gateway.result_stores.store import (
    MAX_ENTRIES,
    Bounds,
    ContextStore,
    ContextUnavailable,
    digest,
    size_of,
    too_large,
)

NAME: Final = "results.sqlite"
VERSION: Final = 1
"""Version of the tables; a file of another version is replaced by a new file."""
PAGE_BYTES: Final = 1024
"""Size of SQLite's pages. It is small, because the last page of each entry is only partly filled."""
SPARE_PAGES: Final = 1024
"""Number of pages for tables and indexes. The file may have as many pages in addition to twice the limit on bytes of
results.
"""
BUSY_SECONDS: Final = 2.0
"""Maximum seconds to wait for a lock of another gateway on the same file."""
PATIENCE_SECONDS: Final = 5.0
"""Maximum seconds that a call waits for the disk. While a transaction takes longer, no further transaction is queued,
so that a hanging disk does not let results pile up in memory."""
SWEEP_SECONDS: Final = 60.0
"""Maximum seconds between the expiry of a result and its deletion."""
_SCHEMA: Final = (
    """CREATE TABLE entries (number INTEGER PRIMARY KEY AUTOINCREMENT, account TEXT NOT NULL, session TEXT NOT NULL,
         ident TEXT NOT NULL, size INTEGER NOT NULL, entry BLOB NOT NULL)""",
    "CREATE INDEX of_account ON entries (account, number, size)",
    "CREATE INDEX of_session ON entries (account, session, ident)",
    """CREATE TABLE sessions (account TEXT NOT NULL, session TEXT NOT NULL, ends REAL NOT NULL,
         PRIMARY KEY (account, session)) WITHOUT ROWID""",
    "CREATE INDEX ends ON sessions (ends)",
    """CREATE TABLE accounts (account TEXT PRIMARY KEY, size INTEGER NOT NULL, count INTEGER NOT NULL,
         newest INTEGER NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX newest ON accounts (newest)",
    "CREATE TABLE total (size INTEGER NOT NULL)",
    "INSERT INTO total VALUES (0)",
    """CREATE TRIGGER added AFTER INSERT ON entries BEGIN
         INSERT INTO accounts VALUES (new.account, new.size, 1, new.number) ON CONFLICT (account)
           DO UPDATE SET size = size + new.size, count = count + 1, newest = new.number;
         UPDATE total SET size = size + new.size;
       END;""",
    """CREATE TRIGGER removed AFTER DELETE ON entries BEGIN
         UPDATE accounts SET size = size - old.size, count = count - 1 WHERE account = old.account;
         DELETE FROM accounts WHERE account = old.account AND count = 0;
         UPDATE total SET size = size - old.size;
       END;""",
)
"""Statements to run one by one: SQLite's script function would commit the transaction."""
_FORGET_EMPTY: Final = """
DELETE FROM sessions WHERE account = ? AND NOT EXISTS (
  SELECT 1 FROM entries WHERE entries.account = sessions.account AND entries.session = sessions.session)
"""
_UNEXPIRED: Final = """
SELECT entry FROM entries JOIN sessions USING (account, session) WHERE account = ? AND session = ? AND ends > ?
"""
Result = TypeVar("Result")
Work = Callable[[sqlite3.Connection], Any]
log = logging.getLogger(__name__)


class DiskStore(ContextStore):
    """Store of results in a file. Several gateways of one machine may share the file. `clock` is in seconds since the
    epoch, because expiry times have to stay valid across restarts.
    """

    def __init__(
        self,
        directory: Path,
        bounds: Bounds,
        clock: Callable[[], float] = time.time,
        *,
        patience: float = PATIENCE_SECONDS,
        lock_timeout: float = BUSY_SECONDS,
    ) -> None:
        """Open or create the file. `patience` and `lock_timeout` are in seconds. Raises OSError, sqlite3.Error."""
        self._lock_timeout = lock_timeout
        self._path = directory / NAME
        self._bounds = bounds
        self._clock = clock
        self._patience = patience
        self._is_usable = True
        self._transaction_began: float | None = None
        """Monotonic time at which the thread began its current transaction."""
        self._works: queue.SimpleQueue[tuple[Work, Future[Any]] | None] = queue.SimpleQueue()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._database = self._open()
        self._thread = threading.Thread(target=self._run, name="results", daemon=True)
        self._thread.start()

    @property
    def hangs(self) -> bool:
        """Whether the thread's current transaction has taken longer than calls wait."""
        started_at = self._transaction_began
        return started_at is not None and time.monotonic() - started_at >= self._patience

    async def append(self, account: str, session: str, ident: str, entry: bytes) -> None:
        error = too_large(entry, self._bounds)
        if error is not None:
            raise error
        await self._submit(lambda database: self._append(database, digest(account), digest(session), ident, entry))

    async def entries(self, account: str, session: str) -> list[bytes]:
        return await self._submit(lambda database: self._unexpired(database, account, session))

    async def entry(self, account: str, session: str, ident: str) -> bytes | None:
        entry = await self._submit(lambda database: self._unexpired(database, account, session, ident))
        return entry[0] if entry else None

    async def delete(self, account: str, session: str) -> int:
        def delete_session(database: sqlite3.Connection) -> int:
            count = len(self._unexpired(database, account, session))
            _drop(database, digest(account), digest(session))
            return count

        return await self._submit(delete_session)

    async def aclose(self) -> None:
        self._works.put(None)
        await asyncio.to_thread(self._thread.join)

    async def _submit(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run `work` in the thread and return its result. Raises ContextUnavailable."""
        if not self.hangs:
            future: Future[Result] = Future()
            self._works.put((work, future))
            try:
                async with asyncio.timeout(self._patience):
                    return await asyncio.wrap_future(future)
            except TimeoutError:
                self._fail("the disk does not respond")
        raise ContextUnavailable("the store of results cannot be used: the disk does not respond")

    def _run(self) -> None:
        """Run queued work, each in a transaction, and periodically delete expired results."""
        pause = min(SWEEP_SECONDS, self._bounds.seconds)
        next_sweep_at = time.monotonic() + pause
        while True:
            try:
                item = self._works.get(timeout=max(0.0, next_sweep_at - time.monotonic()))
            except queue.Empty:
                with contextlib.suppress(ContextUnavailable):
                    self._transact(self._sweep)
                next_sweep_at = time.monotonic() + pause
                continue
            if item is None:
                break
            work, future = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(self._transact(work))
            except BaseException as error:  # noqa: BLE001  # the request that waits has to end
                future.set_exception(error)
        self._database.close()

    def _transact(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run `work` in a transaction. Raises ContextUnavailable."""
        self._transaction_began = time.monotonic()
        try:
            self._database.execute("BEGIN IMMEDIATE")
            result = work(self._database)
            self._database.execute("COMMIT")
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            if not isinstance(error, sqlite3.Error):
                raise
            self._fail(error)
            raise ContextUnavailable(f"the store of results cannot be used: {error}") from error
        finally:
            self._transaction_began = None
        if not self._is_usable:
            log.warning("Results are stored in %s again", self._path)
        self._is_usable = True
        return result

    def _fail(self, reason: object) -> None:
        if self._is_usable:
            log.warning("Results cannot be stored in %s: %s", self._path, reason)
        self._is_usable = False

    def _append(self, database: sqlite3.Connection, account: str, session: str, ident: str, entry: bytes) -> None:
        self._sweep(database)
        self._make_room(database, account, size_of(entry))
        database.execute(
            "INSERT INTO entries (account, session, ident, size, entry) VALUES (?, ?, ?, ?, ?)",
            (account, session, digest(ident), size_of(entry), entry),
        )
        expires_at = self._clock() + self._bounds.seconds
        database.execute("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?)", (account, session, expires_at))

    def _make_room(self, database: sqlite3.Connection, account: str, required_bytes: int) -> None:
        """Delete old entries until an entry of `required_bytes` fits. The entry is inserted afterwards, because SQLite
        cannot insert into a file that has reached its limit of pages.
        """
        max_size = min(self._bounds.each_bytes, self._bounds.total_bytes) - required_bytes
        account_row = database.execute("SELECT size, count FROM accounts WHERE account = ?", (account,)).fetchone()
        size, count = account_row or (0, 0)
        rows = database.execute("SELECT number, size FROM entries WHERE account = ? ORDER BY number", (account,))
        for number, row_size in rows.fetchall():
            if size <= max_size and count < MAX_ENTRIES:
                break
            database.execute("DELETE FROM entries WHERE number = ?", (number,))
            size, count = size - row_size, count - 1
        database.execute(_FORGET_EMPTY, (account,))
        while database.execute("SELECT size FROM total").fetchone()[0] > self._bounds.total_bytes - required_bytes:
            oldest_account = "SELECT account FROM accounts WHERE account != ? ORDER BY newest LIMIT 1"
            _drop(database, *database.execute(oldest_account, (account,)).fetchone())

    def _unexpired(
        self, database: sqlite3.Connection, account: str, session: str, ident: str | None = None
    ) -> list[bytes]:
        where = _UNEXPIRED if ident is None else f"{_UNEXPIRED} AND ident = ?"
        keys = (digest(account), digest(session), self._clock(), *(() if ident is None else (digest(ident),)))
        return [entry for (entry,) in database.execute(where, keys)]

    def _sweep(self, database: sqlite3.Connection) -> None:
        expired_sessions = database.execute(
            "SELECT account, session FROM sessions WHERE ends <= ?", (self._clock(),)
        ).fetchall()
        for account, session in expired_sessions:
            _drop(database, account, session)

    def _open(self) -> sqlite3.Connection:
        """Open the database, and replace a file that is damaged or of another version. Raises OSError,
        sqlite3.Error.
        """
        try:
            return self._connect()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):  # locked, or disk full: a new file would not help
                raise
            log.warning("Stored results in %s cannot be read (%s); a new file replaces them", self._path, error)
            self._path.unlink(missing_ok=True)
            self._path.with_name(f"{NAME}-journal").unlink(missing_ok=True)
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(handle, 0o600)
        finally:
            os.close(handle)
        timeout = self._lock_timeout
        database = sqlite3.connect(self._path, timeout=timeout, isolation_level=None, check_same_thread=False)
        try:
            self._prepare(database)
        except BaseException:
            database.close()
            raise
        return database

    def _prepare(self, database: sqlite3.Connection) -> None:
        for setting in (
            f"page_size = {PAGE_BYTES}",
            "auto_vacuum = FULL",
            "journal_mode = TRUNCATE",
            "synchronous = OFF",
            "secure_delete = ON",
        ):
            database.execute(f"PRAGMA {setting}")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version not in (0, VERSION):
            raise sqlite3.DatabaseError(f"version {version}")
        if database.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise sqlite3.DatabaseError("damaged")
        database.execute("BEGIN IMMEDIATE")
        if database.execute("PRAGMA user_version").fetchone()[0] == 0:
            for statement in _SCHEMA:
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {VERSION}")
        self._sweep(database)
        database.execute("COMMIT")
        max_pages = 2 * self._bounds.total_bytes // PAGE_BYTES + SPARE_PAGES
        database.execute(f"PRAGMA max_page_count = {max_pages}")


def _drop(database: sqlite3.Connection, account: str, session: str | None = None) -> None:
    """Delete the results of a session, or of all sessions of an account, which is the digest of a principal."""
    where, keys = ("", (account,)) if session is None else (" AND session = ?", (account, session))
    for table in ("entries", "sessions"):
        database.execute(f"DELETE FROM {table} WHERE account = ?{where}", keys)  # the table names are constants
