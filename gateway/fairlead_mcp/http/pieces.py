"""A body that is received in pieces, kept so that many small ones cost little more than their bytes. Compiled."""

from __future__ import annotations

from typing import Final, TypeAlias

SMALL_PIECE: Final = 1024
"""Bytes: pieces that are smaller are put together, as each one apart takes 40 bytes more."""

Pieces: TypeAlias = list[bytes | bytearray]


def add(pieces: Pieces, data: bytes) -> None:
    """Append `data`, to the last piece where both are small."""
    if len(data) >= SMALL_PIECE or not pieces:
        pieces.append(data)
        return
    last = pieces[-1]
    if isinstance(last, bytearray):
        last += data
    else:
        pieces.append(bytearray(data))


def join(pieces: Pieces) -> bytes:
    """The whole body. Several pieces are given up: an idle connection would keep them until its next answer."""
    if len(pieces) == 1:
        return bytes(pieces[0])
    whole = b"".join(pieces)
    pieces.clear()
    return whole
