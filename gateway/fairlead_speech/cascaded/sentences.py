"""Cuts a streamed text into sentences that can be spoken separately. Does no I/O."""

from __future__ import annotations

import re
from typing import Final

MAX_PIECE: Final = 280
"""Maximum number of characters of a piece. A longer sentence is cut at the last comma or space within the limit."""
_SENTENCE_END: Final = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s)|[。！？]+|\n+")
_ABBREVIATION: Final = re.compile(r"(?:^|[\s(])(?:Dr|Mr|Mrs|Ms|St|Prof|No|vs|[A-Za-z]|e\.g|i\.e|\d+)\.$")
_BREAK_POINT: Final = re.compile(r"[,;:，；](?=\s|$)|\s")


class SentenceCutter:
    """Cuts the text of one answer into sentences while it arrives."""

    def __init__(self) -> None:
        self._text = ""

    def add(self, text: str) -> list[str]:
        """Add the next part of the text. Returns the sentences that are now complete, with the white space after
        each.
        """
        self._text += text
        sentences = []
        while (end := self._sentence_end()) is not None:
            sentences.append(self._text[:end])
            self._text = self._text[end:]
        return [sentence for sentence in sentences if sentence.strip()]

    def take_rest(self) -> str:
        """Remove and return the remaining text; empty if it is only white space."""
        remaining, self._text = self._text, ""
        return remaining if remaining.strip() else ""

    def _sentence_end(self) -> int | None:
        for match in _SENTENCE_END.finditer(self._text, 0, MAX_PIECE + 1):  # room for the space after the end
            end = match.end()
            if match.group() == "." and _ABBREVIATION.search(self._text[max(end - 8, 0) : end]):
                continue
            while end < len(self._text) and end <= MAX_PIECE and self._text[end].isspace():
                end += 1
            if end > MAX_PIECE:
                break
            return end
        if len(self._text) <= MAX_PIECE:
            return None
        breaks = [match.end() for match in _BREAK_POINT.finditer(self._text, 0, MAX_PIECE)]
        return breaks[-1] if breaks else MAX_PIECE


def speakable(text: str) -> bool:
    """Whether a text has a letter or a digit. Speech servers answer text such as `…` or `**` with an error or without
    audio.
    """
    return any(character.isalnum() for character in text)
