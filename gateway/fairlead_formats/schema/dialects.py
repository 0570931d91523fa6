"""Check of regular expressions in the dialect of a provider: Python's, or ECMA-262, which JSON Schema uses.

Pure module. OpenAI compiles patterns, and names in `patternProperties`, with Python's `re`, and refuses a whole request
for a pattern that does not compile. JSON Schema and OpenAPI recommend ECMA-262.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Generator, Iterator
from enum import StrEnum
from typing import Final

MAX_PATTERN: Final = 2000
"""Maximum number of characters of a pattern; a longer pattern is only described."""
_LOOKAROUND: Final = re.compile(r"\(\?<?[=!]")
_AMBIGUOUS_PARTS: Final = re.compile(r"\[\[|--|&&|~~|\|\|")
"""Parts of character sets about which Python warns, because their meaning may change."""
_PIECE: Final = re.compile(
    r"\\(?:u\{[0-9A-Fa-f]+\}|[pP]\{[^{}]*\}|k<[^>]*>|c[A-Za-z]|.)"  # an escape
    r"|\(\?(?:<[=!]|[<:=!]|.)?"  # the beginning of a group
    r"|\[\^?"
    r"|[*+?}]\+"  # a possessive quantifier
    r"|.",
    re.DOTALL,
)
_ESCAPES_OF_PYTHON: Final = "AZaNU"
_ESCAPES_OF_BOTH: Final = "bBdDfnrsStuvwWx0123456789"
_SETS: Final = "dDsSwWpP"


class Dialect(StrEnum):
    """A syntax of regular expressions."""

    PYTHON = "Python"
    ECMA = "ECMA-262"


def pattern_fault(text: str, dialect: Dialect, *, lookaround: bool = True) -> str | None:
    """Reason why a provider cannot use a pattern; None if it can. `lookaround`: whether it supports look-around."""
    if len(text) > MAX_PATTERN:
        return f"the pattern is longer than {MAX_PATTERN} characters"
    if not lookaround and _LOOKAROUND.search(text):
        return "the pattern uses look-around"
    try:
        _compile(text if dialect is Dialect.PYTHON else "".join(_to_python(text)))
    except (re.error, RecursionError, OverflowError) as error:
        return f"the pattern is not valid in the syntax of {dialect}: {error}"
    return None


def _compile(text: str) -> None:
    if not _AMBIGUOUS_PARTS.search(text):
        re.compile(text)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        re.compile(text)


def _to_python(text: str) -> Iterator[str]:
    """Parts of a regular expression that Python compiles if `text` is valid in ECMA-262. Raises re.error.

    It need not match the same texts: syntax that Python lacks is replaced by syntax that is allowed in the same places.
    """
    position = 0
    while match := _PIECE.match(text, position):
        piece = match[0]
        if piece.startswith("["):
            position = yield from _class(text, position)
            continue
        position += len(piece)
        yield _piece(piece, position)


def _piece(piece: str, position: int) -> str:
    if piece.startswith("\\"):
        return f"(?P={piece[3:-1]})" if piece.startswith(r"\k<") else _escape(piece, position)
    if piece == "(?<":
        return "(?P<"
    if piece in ("(?<=", "(?<!"):  # in ECMA-262, a look-behind may have any width
        return f"(?{piece[-1]}"
    if piece.startswith("(?") and piece not in ("(?:", "(?=", "(?!"):
        raise re.error(f"unknown extension {piece}", piece, position)
    if len(piece) == 2:
        raise re.error(f"multiple repeat {piece}", piece, position)
    return piece


def _escape(piece: str, position: int) -> str:
    letter = piece[1:2]
    if letter in _ESCAPES_OF_PYTHON:
        raise re.error(f"bad escape {piece}", piece, position)
    if letter in "pP" and len(piece) > 2:
        return r"\w"
    return piece if len(piece) == 2 and (letter in _ESCAPES_OF_BOTH or not letter.isalnum()) else "x"


def _class(text: str, position: int) -> Generator[str, None, int]:
    """A character class in Python's syntax. Returns the position of its end. Unlike in Python, a `]` at the beginning
    closes the class.
    """
    start = position
    position += 1
    is_negated = text.startswith("^", position)
    position += is_negated
    members: list[str] = []
    while position < len(text) and text[position] != "]":
        match = _PIECE.match(text, position) if text[position] == "\\" else None
        piece = match[0] if match else text[position]
        position += len(piece)
        is_set = piece.startswith("\\") and piece[1:2] in _SETS
        members.append(_escape(piece, position) if match else re.escape(piece) if piece != "-" else piece)
        if text.startswith("-", position) and (is_set or _is_set(text, position + 1)):
            members.append(r"\-")
            position += 1
    if position >= len(text):
        raise re.error("unterminated character set", text, start)
    if members:
        yield f"[{'^' if is_negated else ''}{''.join(members)}]"
    else:
        yield r"[\s\S]" if is_negated else "(?!)"
    return position + 1


def _is_set(text: str, position: int) -> bool:
    return text.startswith("\\", position) and text[position + 1 : position + 2] in (*_SETS,)
