"""Halves of surrogate pairs in JSON, as servers write them that cut a text between two UTF-16 units. Pure module."""

from __future__ import annotations

import re
from typing import Final

_HIGH: Final = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW: Final = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF: Final = re.compile(rb"%s(?!%s)|(?<!%s)%s" % (_HIGH, _LOW, _HIGH, _LOW))
_BACKSLASH: Final = b"\x00"
"""Stands for an escaped backslash meanwhile: no JSON holds that byte."""


def pair(data: bytes) -> bytes:
    """The JSON with a replacement character for each half of a surrogate pair that is alone in it: no UTF-8 has one."""
    if (b"\\ud" not in data and b"\\uD" not in data) or _BACKSLASH in data:
        return data
    escaped = data.replace(b"\\\\", _BACKSLASH)
    return _HALF.sub(rb"\\ufffd", escaped).replace(_BACKSLASH, b"\\\\")
