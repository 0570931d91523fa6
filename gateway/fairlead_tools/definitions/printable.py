"""Foreign texts for people: what cannot be printed is written as an escape. Pure."""

from __future__ import annotations

from typing import Final

_SHOWN: Final = 60
"""Characters of a foreign name in a message."""


def visible(text: str) -> str:
    """The text with an escape for each character that cannot be printed, line feeds among them."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def fit(text: str, limit: int = _SHOWN) -> str:
    """A foreign text on one line of a message, cut at `limit` characters."""
    line = visible(text[: limit + 1])
    return line if len(line) <= limit else line[: limit - 1] + "…"
