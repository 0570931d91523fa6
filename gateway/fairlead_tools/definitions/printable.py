"""Display of untrusted texts, with escapes for characters that cannot be printed. No I/O."""

from __future__ import annotations

from typing import Final

_MAX_SHOWN: Final = 60
"""Default maximum number of characters of an untrusted text in a message."""


def escape_unprintable(text: str) -> str:
    """Replace characters that cannot be printed, including line feeds, by escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def fit(text: str, limit: int = _MAX_SHOWN) -> str:
    """Make an untrusted text fit on one line of a message, cut at `limit` characters."""
    line = escape_unprintable(text[: limit + 1])
    return line if len(line) <= limit else line[: limit - 1] + "…"
