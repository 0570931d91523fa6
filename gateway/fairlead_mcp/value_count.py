"""Costs of decoding a JSON document: each value takes 50 ns and up to some 200 bytes, and long integers take the
square of their digits. Pure module.
"""

from __future__ import annotations

from typing import Final

MAX_DIGITS: Final = 64
"""Digits of a number; all that are needed for one of 64 bits are 20."""
_RUN: Final = b"0" * (MAX_DIGITS + 1)
_DIGITS: Final = bytes(ord("0") if byte in b"0123456789" else ord(" ") for byte in range(256))
_STRINGS_OF_A_VALUE: Final = 2
"""A member has a name, and its value may be a string."""
_MAX_STRINGS: Final = 200_000
"""Strings of a document that are taken out, 0.1 µs each: of one with more, commas in its strings count as values."""


def too_dear(document: bytes, most: int) -> str | None:
    """Return the reason for which a document is not to be decoded, or None: it holds more values than `most`, by its
    commas and openings outside of strings (an empty list or object counts twice), or a number of more than MAX_DIGITS
    digits.
    Costs some milliseconds per MiB, and some 100 bytes of memory for each of `most`.
    """
    counted = _marks(document)  # upper bounds, with those that are within strings
    if counted <= most and not _has_long_number(document):
        return None
    outside = _outside_strings(document, most)
    if outside is None or _exceeds(outside, most):
        return f"more than {most:,} values"
    return f"a number with more than {MAX_DIGITS} digits" if _has_long_number(outside) else None


def too_many_values(document: bytes, most: int) -> bool:
    """Whether a document holds more values than `most`, as `too_dear`, but whatever its numbers are. Costs 0.3 ms per
    MiB where it has fewer commas than that.
    """
    if document.count(b",") <= most:
        return False
    outside = _outside_strings(document, most)
    return outside is None or _exceeds(outside, most)


def _outside_strings(document: bytes, most: int) -> bytes | None:
    """The document without its strings; None where these are more than `most` values have."""
    if b"\\" in document:
        document = document.replace(b"\\\\", b"").replace(b'\\"', b"")
    if document.count(b'"') // 2 > min(_STRINGS_OF_A_VALUE * (most + 1), _MAX_STRINGS):
        return None
    return b"".join(document.split(b'"')[::2])


def _exceeds(document: bytes, most: int) -> bool:
    return document.count(b",") > most or _marks(document) > most  # each count takes 0.6 ms per MiB


def _marks(document: bytes) -> int:
    return document.count(b",") + document.count(b"{") + document.count(b"[")


def _has_long_number(document: bytes) -> bool:
    return _RUN in document.translate(_DIGITS)
