"""Collects the pieces of a body with little overhead for small ones. Compiled."""

from __future__ import annotations

from typing import Final, TypeAlias

SMALL_PIECE: Final = 1024
"""Bytes below which pieces are joined, as each separate piece takes 40 bytes more."""

Pieces: TypeAlias = list[bytes | bytearray]


def add(pieces: Pieces, data: bytes) -> None:
    """Append `data`, if it is small to the last piece."""
    if len(data) >= SMALL_PIECE or not pieces:
        pieces.append(data)
        return
    last = pieces[-1]
    if isinstance(last, bytearray):
        last += data
    else:
        pieces.append(bytearray(data))


def join(pieces: Pieces) -> bytes:
    """Return the whole body and clear the pieces, which an idle connection would keep until its next answer."""
    if len(pieces) == 1:
        return bytes(pieces[0])
    whole = b"".join(pieces)
    pieces.clear()
    return whole
