"""Text that arrives in pieces, as in a stream, stored in little memory. Pure module."""

from __future__ import annotations

from typing import Final

_MAX_PIECES: Final = 32
"""Number of pieces that are collected before they are joined."""


class TextPieces:
    """Pieces of one text. They are joined now and then to save memory: even a string of a few characters takes 60
    bytes.
    """

    __slots__ = ("_joined_pieces", "_pieces")

    def __init__(self) -> None:
        self._joined_pieces: list[str] = []
        self._pieces: list[str] = []

    def append(self, piece: str) -> None:
        self._pieces.append(piece)
        if len(self._pieces) >= _MAX_PIECES:
            self._joined_pieces.append("".join(self._pieces))
            self._pieces.clear()

    def __len__(self) -> int:
        return len(self._joined_pieces) * _MAX_PIECES + len(self._pieces)

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join([*self._joined_pieces, *self._pieces])
