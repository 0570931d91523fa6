"""Cuts a text that is being written into pieces that can be spoken one after the other. Pure module."""

from __future__ import annotations

import re
from typing import Final

MOST: Final = 280
"""Characters of a piece; a longer sentence is cut at its last comma or space."""
_END: Final = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s)|[。！？]+|\n+")
_ABBREVIATION: Final = re.compile(r"(?:^|[\s(])(?:Dr|Mr|Mrs|Ms|St|Prof|No|vs|[A-Za-z]|e\.g|i\.e|\d+)\.$")
_BREAK: Final = re.compile(r"[,;:，；](?=\s|$)|\s")


class SentenceCutter:
    """Text of one answer."""

    def __init__(self) -> None:
        self._text = ""

    def add(self, text: str) -> list[str]:
        """Take the next part; the sentences that are whole now, with the white space behind them."""
        self._text += text
        found = []
        while (end := self._end()) is not None:
            found.append(self._text[:end])
            self._text = self._text[end:]
        return [each for each in found if each.strip()]

    def rest(self) -> str:
        """The text that is left; empty for nothing that can be spoken."""
        rest, self._text = self._text, ""
        return rest if rest.strip() else ""

    def _end(self) -> int | None:
        for match in _END.finditer(self._text, 0, MOST + 1):  # one more: an end has a space behind it
            end = match.end()
            if match.group() == "." and _ABBREVIATION.search(self._text[max(end - 8, 0) : end]):
                continue
            while end < len(self._text) and end <= MOST and self._text[end].isspace():
                end += 1
            if end > MOST:
                break
            return end
        if len(self._text) <= MOST:
            return None
        breaks = [match.end() for match in _BREAK.finditer(self._text, 0, MOST)]
        return breaks[-1] if breaks else MOST


def speakable(text: str) -> bool:
    """Whether there is a letter or a digit in it: servers answer a lone `…` or `**` with an error, or without audio."""
    return any(each.isalnum() for each in text)
