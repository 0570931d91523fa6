"""Number of values of a JSON document before it is decoded: once it is, each takes 50 ns and up to some 200 bytes. Pure
module.
"""

from __future__ import annotations

from typing import Final

_STRINGS_OF_A_VALUE: Final = 2
"""A member has a name, and its value may be a string."""


def holds_more(document: bytes, most: int) -> bool:
    """Whether a document holds more values than `most`, by its commas and openings outside of strings; an empty list
    or object counts twice. Costs some milliseconds per MiB; `most` bounds its memory, 100,000 take some MiB.
    """
    if _marks(document) <= most:  # those within strings count too: it is an upper bound
        return False
    if b"\\" in document:
        document = document.replace(b"\\\\", b"").replace(b'\\"', b"")
    if document.count(b'"') > 2 * _STRINGS_OF_A_VALUE * (most + 1):
        return True
    return _marks(b"".join(document.split(b'"')[::2])) > most


def _marks(document: bytes) -> int:
    return document.count(b",") + document.count(b"{") + document.count(b"[")
