"""Full-text search with SQLite's FTS5: queries of plain words, and how texts are tokenized."""

from __future__ import annotations

import re
import sqlite3
from typing import Any, Final

from fairlead_servers.tool import ToolError

TOKENS: Final = "tokenize = 'porter unicode61 remove_diacritics 2'"
MOST_WORDS: Final = 16
"""Words of a query that are looked for."""
_WORD: Final = re.compile(r"\w+")


def match_expressions(query: str) -> tuple[str, ...]:
    """FTS5 expressions for a query in plain words: all words, then any of them. Its own operators are not heeded.

    The last word may be the beginning of a longer one. Empty for a query without words.
    """
    words = [f'"{word}"' for word in _WORD.findall(query)[:MOST_WORDS]]
    if not words:
        return ()
    words[-1] += "*"
    every, some = " ".join(words), " OR ".join(words)
    return (every, some) if len(words) > 1 else (every,)


def matches(connection: sqlite3.Connection, statement: str, query: str, limit: int, *more: Any) -> list[sqlite3.Row]:
    """Rows of a statement that takes an FTS5 expression, `more` and a limit; without all words, rows with any of them.

    Raises ToolError for a query without words.
    """
    expressions = match_expressions(query)
    if not expressions:
        raise ToolError("the query has no words to look for.")
    for expression in expressions:
        if rows := connection.execute(statement, (expression, *more, limit)).fetchall():
            return rows
    return []


def cut(text: str, limit: int) -> str:
    """Text of at most `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"
