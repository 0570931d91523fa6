"""Refusals of thoughts that another model, or another provider's account, has sealed: signatures and encrypted
reasoning are good for those that made them. Pure module.

Sources: Anthropic's guide to extended thinking ("Invalid `signature` in `thinking` block"), OpenAI's error code
`invalid_encrypted_content`, Google's page on thought signatures ("Corrupted thought signature").
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from fairlead_formats.wire.protocol import WireFormat
from fairlead_formats.wire.raw_json import decode_object

LOST_THOUGHTS: Final = "thinking"
"""Code of the loss of thoughts that a request had."""
_CODE: Final = "invalid_encrypted_content"
_WORDS: Final = re.compile(
    r"invalid `?signature`? in `?thinking|`?(?:redacted_)?thinking`? blocks .{0,80}cannot be modified"
    r"|encrypted[ _]content .{0,120}(?:could not|cannot) be (?:verified|decrypted)"
    r"|(?:corrupted|invalid) thought[ _]?signature|thought[ _]?signature is (?:not valid|invalid)"
    r"|item with id '?rs_\w{1,200}'? not found",
    re.IGNORECASE | re.DOTALL,
)
MOST_TEXT: Final = 4096
"""Characters of an error that are looked through."""


def tells_of_thoughts(body: bytes) -> bool:
    """Whether a provider's refusal says that it does not take the thoughts of a request."""
    error = decode_object(body).get("error")
    if not isinstance(error, dict):
        return False
    return error.get("code") == _CODE or bool(_WORDS.search(str(error.get("message", ""))[:MOST_TEXT]))


def without_thoughts(wire: WireFormat, body: bytes, kept: int) -> bytes | None:
    """A request without sealed thoughts, but for those in its last `kept` messages; None where there are none, or
    where it cannot be read.
    """
    try:
        return wire.without_thoughts(body, kept)
    except (msgspec.MsgspecError, KeyError, RecursionError, UnicodeDecodeError):
        return None
