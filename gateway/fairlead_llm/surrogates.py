"""Halves of surrogate pairs in JSON that models write: no text holds one. Pure module."""

from __future__ import annotations

import re
from typing import Final

_HALF: Final = re.compile(
    rb"(\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
"""Escaped backslashes and pairs, which stay, or half a pair."""


def paired(data: bytes) -> bytes:
    """The JSON with a replacement character for each half of a surrogate pair that stands alone in it."""
    if b"\\ud" not in data and b"\\uD" not in data:
        return data
    return _HALF.sub(lambda found: found[0] if found[1] else b"\\ufffd", data)
