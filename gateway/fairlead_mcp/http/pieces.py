"""Collects the pieces of an HTTP body in a list, with little overhead for small pieces. Compiled by mypyc."""

from __future__ import annotations

from typing import Final, TypeAlias

SMALL_PIECE: Final = 1024
"""Bytes below which data is appended to the last piece, as each separate piece takes 40 bytes more."""

Pieces: TypeAlias = list[bytes | bytearray]


def add(pieces: Pieces, data: bytes) -> None:
    """Add data to the body: as a new piece, or at the end of the last piece if the data is small."""
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
