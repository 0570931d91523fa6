"""Refusals of thoughts that another model, or another provider's account, has sealed: signatures and encrypted
reasoning are valid only where they were made; and of turns that another model began without any. Pure module.

Sources: Anthropic's guide to extended thinking ("Invalid `signature` in `thinking` block", "Expected `thinking` or
`redacted_thinking`, but found `text`"), OpenAI's error code
`invalid_encrypted_content`, Google's page on thought signatures ("Corrupted thought signature").
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from fairlead_formats.wire.protocol import WireFormat
from fairlead_formats.wire.raw_json import decode_object

LOST_THOUGHTS: Final = "thinking"
"""Loss code: thoughts were left out of a request."""
_CODE: Final = "invalid_encrypted_content"
_WORDS: Final = re.compile(
    r"invalid `?signature`? in `?thinking|`?(?:redacted_)?thinking`? blocks .{0,80}cannot be modified"
    r"|expected `?thinking`? or `?redacted_thinking`?, but found"
    r"|encrypted[ _]content .{0,120}(?:could not|cannot) be (?:verified|decrypted)"
    r"|(?:corrupted|invalid) thought[ _]?signature|thought[ _]?signature is (?:not valid|invalid)"
    r"|item with id '?rs_\w{1,200}'? not found",
    re.IGNORECASE | re.DOTALL,
)
MOST_TEXT: Final = 4096
"""Characters of an error message that are searched."""


def tells_of_thoughts(body: bytes) -> bool:
    """Whether a provider refuses a request because of sealed thoughts."""
    error = decode_object(body).get("error")
    if not isinstance(error, dict):
        return False
    return error.get("code") == _CODE or bool(_WORDS.search(str(error.get("message", ""))[:MOST_TEXT]))


def without_thoughts(wire: WireFormat, body: bytes, own_messages: int) -> bytes | None:
    """The body of a request without sealed thoughts, but for those in its last `own_messages` messages; None where it
    has none, or cannot be read.
    """
    try:
        return wire.without_thoughts(body, own_messages)
    except (msgspec.MsgspecError, KeyError, RecursionError, UnicodeDecodeError):
        return None
