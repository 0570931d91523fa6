"""Text for a terminal: measured in cells, folded and cut to a width, and without terminal control sequences.

A wide character (East Asian, most emoji) takes two cells, a combining character none. This module has no I/O.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from rich.cells import cell_len, get_character_cell_size

_SEQUENCES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colors, moves of the cursor
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # OSC and other strings: titles, links, the clipboard
    r"|\x1b[ -/]*[0-~]?",
    re.DOTALL,
)
_SELECTORS: Final = re.compile("[\N{VARIATION SELECTOR-1}-\N{VARIATION SELECTOR-16}]")
"""Variation selectors, which are removed: depending on the terminal, an emoji before one takes one cell or two."""
_MAX_MARKS: Final = 2
"""Maximum number of combining characters per letter; more would cover the lines above."""
_MAX_LENGTH: Final = 8_000


def sanitize(text: str) -> str:
    """`text` of a foreign server on one line, without escape sequences, control and format characters, and stacked
    marks.
    """
    text = _SELECTORS.sub("", _SEQUENCES.sub(" ", text[:_MAX_LENGTH]))
    characters, marks = [], 0
    for char in text:
        marks = marks + 1 if unicodedata.combining(char) else 0
        if marks <= _MAX_MARKS:
            characters.append(char if char.isprintable() else " ")
    return re.sub(r" {2,}", " ", "".join(characters)).strip()


def fold(text: str, width: int) -> list[str]:
    """Split text into lines of at most `width` cells, at blanks if possible. Returns at least one line."""
    lines, line, line_width = [], "", 0
    for word in text.split(" "):
        word_width = cell_len(word)
        if line and line_width + 1 + word_width <= width:
            line, line_width = f"{line} {word}", line_width + 1 + word_width
            continue
        if line:
            lines.append(line)
        *full_lines, line = chop(word, width)
        lines += full_lines
        line_width = cell_len(line)
    return [*lines, line]


def fold_to(text: str, width: int, max_lines: int) -> list[str]:
    """At most `max_lines` lines; the last line ends with the number of lines that are left out."""
    lines = fold(text, width)
    if len(lines) <= max_lines:
        return lines
    rest_count = len(lines) - max_lines
    ending = f" … {rest_count} more line{'' if rest_count == 1 else 's'}"
    if len(ending) > width // 2:
        ending = f" …+{rest_count}"
    return [*lines[: max_lines - 1], cut(lines[max_lines - 1], width - len(ending)) + ending]


def cut(text: str, width: int) -> str:
    """The text, or its beginning of at most `width` cells."""
    return text if cell_len(text) <= width else chop(text, max(1, width))[0]


def pad(text: str, width: int) -> str:
    """The text padded with blanks to `width` cells."""
    return text + " " * max(0, width - cell_len(text))


def chop(word: str, width: int) -> list[str]:
    """Split a word into pieces of at most `width` cells; a wider character is a separate piece."""
    pieces, piece, piece_width = [], "", 0
    for char in word:
        size = get_character_cell_size(char)
        if piece and piece_width + size > width:
            pieces.append(piece)
            piece, piece_width = "", 0
        piece, piece_width = piece + char, piece_width + size
    return [*pieces, piece]
