"""Errors of Gemini's API as providers answer them. Pure module."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from fairlead_formats.wire import raw_json

_raws: Final = msgspec.json.Decoder(list[Raw]).decode


def error_in(body: bytes) -> bytes | None:
    """The raw object `error` of a provider's answer, which may be a list of one; None where there is none."""
    try:
        found = _raws(body)[:1] if body.lstrip()[:1] == b"[" else [body]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    error = raw_json.error_in(bytes(found[0])) if found else None
    return error if error is not None and error[:1] == b"{" else None
