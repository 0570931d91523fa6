"""Replaces lone surrogates in JSON, from servers that cut a text between two UTF-16 units. No I/O."""

from __future__ import annotations

import re
from typing import Final

_HIGH: Final = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW: Final = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF: Final = re.compile(rb"%s(?!%s)|(?<!%s)%s" % (_HIGH, _LOW, _HIGH, _LOW))
_BACKSLASH: Final = b"\x00"
"""Placeholder for an escaped backslash; valid JSON does not contain that byte."""


def replace_lone_surrogates(data: bytes) -> bytes:
    """Replace the escapes of lone surrogates, which UTF-8 cannot encode, by the escapes of U+FFFD."""
    if (b"\\ud" not in data and b"\\uD" not in data) or _BACKSLASH in data:
        return data
    escaped = data.replace(b"\\\\", _BACKSLASH)
    return _HALF.sub(rb"\\ufffd", escaped).replace(_BACKSLASH, b"\\\\")
