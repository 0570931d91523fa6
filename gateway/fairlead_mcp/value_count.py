"""Estimate of the cost of decoding a JSON document, without decoding it. No I/O.

Decoding takes 50 ns and up to 200 bytes of memory per value; for an integer, the time grows with the square of its
digits.
"""

from __future__ import annotations

from typing import Final

MAX_DIGITS: Final = 64
"""Limit for the digits of a number; an integer of 64 bits has at most 20."""
_RUN: Final = b"0" * (MAX_DIGITS + 1)
_DIGITS: Final = bytes(ord("0") if byte in b"0123456789" else ord(" ") for byte in range(256))
_STRINGS_OF_A_VALUE: Final = 2
"""Most strings per value: the name of a member and its value."""
_MAX_STRINGS: Final = 200_000
"""Strings up to which a document is counted exactly, at 0.1 µs per string; with more it counts as too large."""


def explain_cost(document: bytes, most: int) -> str | None:
    """Explain why a document is too expensive to decode; None if it is not.

    A document is too expensive if it has more than `most` values, or a number of more than MAX_DIGITS digits. Values
    are counted by commas and opening brackets outside of strings, so that an empty list or object counts twice. The
    check takes some milliseconds per MiB, and up to 100 bytes of memory per value of `most`.
    """
    counted = _marks(document)  # an upper bound, as it includes marks within strings
    if counted <= most and not _has_long_number(document):
        return None
    outside = _outside_strings(document, most)
    if outside is None or _exceeds(outside, most):
        return f"more than {most:,} values"
    return f"a number with more than {MAX_DIGITS} digits" if _has_long_number(outside) else None


def too_many_values(document: bytes, most: int) -> bool:
    """Whether a document has more than `most` values, without regard to long numbers. Takes 0.3 ms per MiB for a
    document with at most `most` commas.
    """
    if document.count(b",") <= most:
        return False
    outside = _outside_strings(document, most)
    return outside is None or _exceeds(outside, most)


def _outside_strings(document: bytes, most: int) -> bytes | None:
    """Remove the strings of a document; None if there are more strings than `most` values can have."""
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
