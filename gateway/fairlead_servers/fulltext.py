"""Full-text search with SQLite FTS5: converts plain queries to FTS5 expressions, and finds the matching rows."""

from __future__ import annotations

import re
import sqlite3
from typing import Any, Final

from fairlead_servers.tool import ToolError

TOKENS: Final = "tokenize = 'porter unicode61 remove_diacritics 2'"
MOST_WORDS: Final = 16
"""Maximum number of words of a query; further words are ignored."""
_WORD: Final = re.compile(r"\w+")


def match_expressions(query: str) -> tuple[str, ...]:
    """FTS5 expressions for a plain query: the first matches all words, the second matches any word. Operators of FTS5
    in the query have no effect.

    The last word also matches as a prefix. Empty for a query without words.
    """
    words = [f'"{word}"' for word in _WORD.findall(query)[:MOST_WORDS]]
    if not words:
        return ()
    words[-1] += "*"
    all_words, any_word = " ".join(words), " OR ".join(words)
    return (all_words, any_word) if len(words) > 1 else (all_words,)


def matches(
    connection: sqlite3.Connection, statement: str, query: str, limit: int, *parameters: Any
) -> list[sqlite3.Row]:
    """Rows that match all words of a query; if there are no such rows, rows that match any word. The parameters of
    `statement` are the FTS5 expression, then `parameters`, then the limit.

    Raises ToolError for a query without words.
    """
    expressions = match_expressions(query)
    if not expressions:
        raise ToolError("the query has no words to search for.")
    for expression in expressions:
        if rows := connection.execute(statement, (expression, *parameters, limit)).fetchall():
            return rows
    return []


def cut(text: str, limit: int) -> str:
    """The text, shortened to `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"
