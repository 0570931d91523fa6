"""Estimate of the cost of decoding a JSON document, without decoding it. No I/O.

Decoding takes 50 ns and up to 200 bytes of memory per value; for an integer, the time grows with the square of its
digits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MAX_DIGITS: Final = 64
"""Limit for the digits of a number; an integer of 64 bits has at most 20."""
_RUN: Final = b"0" * (MAX_DIGITS + 1)
_DIGITS: Final = bytes(ord("0") if byte in b"0123456789" else ord(" ") for byte in range(256))
_MARKS: Final = (b",", b"{", b"[")
_FEW_STRINGS: Final = 64
"""Number up to which strings are skipped one by one, instead of copying what is outside of them."""
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


def too_many_values(text: bytes, max_values: int, start: int = 0) -> bool:
    """Whether the document that begins at `start` has more than `max_values` values, without regard to long numbers.
    Takes 0.3 ms per MiB for a document with at most `max_values` commas.
    """
    return text.count(b",", start) > max_values and _exceeds_outside_strings(text, max_values, start)


def _exceeds_outside_strings(text: bytes, max_values: int, start: int = 0) -> bool:
    """Whether the document that begins at `start` has more than `max_values` values, or more strings than so many
    values can have.
    """
    if b"\\" in text:
        text, start = _without_escapes(text[start:]), 0
    if (ranges := _few_ranges_outside_strings(text, start)) is not None:
        return _exceeds(text, ranges, max_values)  # a copy would take longer than the counts
    if text.count(b'"', start) // 2 > min(_STRINGS_OF_A_VALUE * (max_values + 1), _MAX_STRINGS):
        return True
    outside = _outside_strings(text[start:])
    return _exceeds(outside, ((0, len(outside)),), max_values)


def _few_ranges_outside_strings(document: bytes, start: int) -> list[tuple[int, int]] | None:
    """Start and end of each part outside of strings, from `start` on, in a document without escapes; None if it has
    more than _FEW_STRINGS strings. A search for rare quotes takes a tenth of the time of a count.
    """
    ranges: list[tuple[int, int]] = []
    while len(ranges) <= _FEW_STRINGS:
        opening = document.find(b'"', start)
        if opening < 0:
            return [*ranges, (start, len(document))]
        ranges.append((start, opening))
        closing = document.find(b'"', opening + 1)
        if closing < 0:
            return ranges
        start = closing + 1
    return None


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
