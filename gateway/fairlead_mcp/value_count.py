"""Estimate of the cost of decoding a JSON document, without decoding it. No I/O.

Decoding takes 50 ns and up to 200 bytes of memory per value; for an integer, the time grows with the square of its
digits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

MAX_DIGITS: Final = 64
"""Limit for the digits of a number; an integer of 64 bits has at most 20."""
_RUN: Final = b"0" * (MAX_DIGITS + 1)
_DIGITS: Final = bytes(ord("0") if byte in b"0123456789" else ord(" ") for byte in range(256))
_MARKS: Final = (b",", b"{", b"[")
_FEW_QUOTES: Final = 128
"""Quotes up to which strings are skipped one by one, instead of copying what is outside of them."""
_STRINGS_OF_A_VALUE: Final = 2
"""Most strings per value: the name of a member and its value."""
_MAX_STRINGS: Final = 200_000
"""Strings up to which a document is counted exactly, at 0.1 µs per string; with more it counts as too large."""


def explain_cost(document: bytes, max_values: int) -> str | None:
    """Explain why a document is too expensive to decode; None if it is not.

    A document is too expensive if it has more than `max_values` values, or a number of more than MAX_DIGITS digits.
    Values are counted by commas and opening brackets outside of strings, so that an empty list or object counts twice.
    The check takes some milliseconds per MiB, and up to 100 bytes of memory per value of `max_values`.
    """
    whole_document = ((0, len(document)),)
    if not _exceeds(document, whole_document, max_values) and not _has_long_number(
        document
    ):  # marks within strings included
        return None
    if _exceeds_outside_strings(document, max_values):
        return f"more than {max_values:,} values"
    return f"a number with more than {MAX_DIGITS} digits" if _has_long_number(_outside_strings(document)) else None


def too_many_values(document: bytes, max_values: int) -> bool:
    """Whether a document has more than `max_values` values, without regard to long numbers. Takes 0.3 ms per MiB for a
    document with at most `max_values` commas.
    """
    return document.count(b",") > max_values and _exceeds_outside_strings(document, max_values)


def _exceeds_outside_strings(document: bytes, max_values: int) -> bool:
    """Whether a document has more than `max_values` values, or more strings than so many values can have."""
    document = _without_escapes(document)
    quotes = document.count(b'"')
    if quotes // 2 > min(_STRINGS_OF_A_VALUE * (max_values + 1), _MAX_STRINGS):
        return True
    if quotes > _FEW_QUOTES:
        outside = _outside_strings(document)
        return _exceeds(outside, ((0, len(outside)),), max_values)
    return _exceeds(document, _ranges_outside_strings(document), max_values)  # copies would take longer than the counts


def _ranges_outside_strings(document: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of each part outside of strings, in a document without escapes."""
    start = 0
    while True:
        opening = document.find(b'"', start)
        if opening < 0:
            yield start, len(document)
            return
        yield start, opening
        closing = document.find(b'"', opening + 1)
        if closing < 0:
            return
        start = closing + 1


def _exceeds(document: bytes, ranges: Iterable[tuple[int, int]], max_values: int) -> bool:
    """Whether the ranges have more than `max_values` marks. A count takes 0.4 ms per MiB; there are three for each
    range.
    """
    marks = 0
    for start, end in ranges:
        for mark in _MARKS:
            marks += document.count(mark, start, end)
            if marks > max_values:
                return True
    return False


def _outside_strings(document: bytes) -> bytes:
    return b"".join(_without_escapes(document).split(b'"')[::2])


def _without_escapes(document: bytes) -> bytes:
    return document.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in document else document


def _has_long_number(document: bytes) -> bool:
    return _RUN in document.translate(_DIGITS)
