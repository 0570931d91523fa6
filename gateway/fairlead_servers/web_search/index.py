"""Full-text search in the files of a folder, for machines without a search engine: SQLite FTS5 in memory."""

from __future__ import annotations

import re
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ENDINGS: Final = frozenset({".htm", ".html", ".md", ".txt"})
MOST_FILES: Final = 5000
MOST_BYTES: Final = 1_000_000
"""Maximum number of bytes of a file; larger files are left out."""
SCHEME: Final = "index:"
"""URL scheme of the indexed files."""
_WORD: Final = re.compile(r"\w+")
_MOST_WORDS: Final = 32


@dataclass(frozen=True)
class PageHit:
    """One search result."""

    title: str
    url: str
    snippet: str


@dataclass(frozen=True)
class IndexedPage:
    """One file of the folder."""

    title: str
    text: str
    html: bool


class FileIndex:
    """Index of the files of a folder, rebuilt when a file has changed. It may be used from several threads."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._stamp: tuple[tuple[str, int, int], ...] = ()
        """Name, modification time and size of each indexed file, to detect changes."""
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        weakref.finalize(self, self._db.close)  # Python 3.13 and later warn about unclosed connections
        self._db.execute(
            "CREATE VIRTUAL TABLE pages USING fts5(title, body, name UNINDEXED, tokenize='porter unicode61')"
        )

    def search(self, query: str, limit: int) -> list[PageHit]:
        """Files that contain any word of the query, best match first."""
        words = _WORD.findall(query)[:_MOST_WORDS]
        if not words:
            return []
        expression = " OR ".join(f'"{word}"' for word in words)
        with self._lock:
            self._refresh()
            rows = self._db.execute(
                "SELECT title, name, snippet(pages, 1, '', '', '…', 30) FROM pages WHERE pages MATCH ? "
                "ORDER BY bm25(pages, 4.0, 1.0), name LIMIT ?",
                (expression, limit),
            ).fetchall()
        return [PageHit(title, SCHEME + name, " ".join(snippet.split())) for title, name, snippet in rows]

    def page(self, url: str) -> IndexedPage | None:
        """File with a URL; None if the index has no such file."""
        name = url.removeprefix(SCHEME)
        with self._lock:
            self._refresh()
            row = self._db.execute("SELECT title, body FROM pages WHERE name = ?", (name,)).fetchone()
        return None if row is None else IndexedPage(row[0], row[1], name.endswith((".html", ".htm")))

    def _refresh(self) -> None:
        files = list(self._files())
        stamp = tuple((name, mtime, size) for name, _, mtime, size in files)
        if stamp == self._stamp:
            return
        rows = [(_title(path, text), text, name) for name, path, _, _ in files if (text := _text(path)) is not None]
        with self._db:
            self._db.execute("DELETE FROM pages")
            self._db.executemany("INSERT INTO pages (title, body, name) VALUES (?, ?, ?)", rows)
        self._stamp = stamp

    def _files(self) -> Iterator[tuple[str, Path, int, int]]:
        """Name, path, time and size of each file, sorted by name; links are not followed."""
        count = 0
        for path in sorted(self._root.rglob("*")):
            if path.suffix.lower() not in ENDINGS or path.is_symlink() or not path.is_file():
                continue
            size = path.stat().st_size
            if size <= MOST_BYTES:
                count += 1
                if count > MOST_FILES:
                    return
                yield path.relative_to(self._root).as_posix(), path, path.stat().st_mtime_ns, size


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return None


def _title(path: Path, text: str) -> str:
    match = re.search(r"<title[^>]*>([^<]{1,200})</title>|^#\s+(.{1,200})$", text[:5000], re.IGNORECASE | re.MULTILINE)
    return (match[1] or match[2]).strip() if match else path.stem
