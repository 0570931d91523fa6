"""Text that arrives in pieces: complete at any time, and stored in few strings."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from fairlead_formats.wire.text_pieces import TextPieces


@given(st.lists(st.text(max_size=5), max_size=200))
def test_text_pieces_are_one_text(pieces: list[str]) -> None:
    text = TextPieces()
    for number, piece in enumerate(pieces, 1):
        text.append(piece)
        assert text.text == "".join(pieces[:number])


def test_text_pieces_take_little_more_than_their_text() -> None:
    text, count = TextPieces(), 10_000
    for number in range(count):
        text.append(f" {number:04}")
    strings = [*text._joined_pieces, *text._pieces]
    assert sum(map(sys.getsizeof, strings)) < 2 * len(text.text)
