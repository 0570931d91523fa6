"""How lists of phrases are written down. Pure."""

from __future__ import annotations


def listed(text: str) -> list[str]:
    """Phrases between commas."""
    return [" ".join(phrase.split()) for phrase in text.split(",")]
