"""Detects errors about reasoning ("thoughts") that another model or account created, and removes such reasoning.

Providers sign or encrypt reasoning, and accept only their own. Some also refuse turns that another model began without
reasoning. Pure module. Sources: Anthropic's guide to extended thinking ("Invalid `signature` in `thinking` block",
"Expected `thinking` or `redacted_thinking`, but found `text`"), OpenAI's error code `invalid_encrypted_content`,
Google, "Thought signatures" ("Corrupted thought signature").
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from fairlead_formats.wire.protocol import WireFormat
from fairlead_formats.wire.raw_json import decode_object

LOST_THOUGHTS: Final = "thinking"
"""Loss code for reasoning that was removed from a request."""
_CODE: Final = "invalid_encrypted_content"
_WORDS: Final = re.compile(
    r"invalid `?signature`? in `?thinking|`?(?:redacted_)?thinking`? blocks .{0,80}cannot be modified"
    r"|expected `?thinking`? or `?redacted_thinking`?, but found"
    r"|encrypted[ _]content .{0,120}(?:could not|cannot) be (?:verified|decrypted)"
    r"|(?:corrupted|invalid) thought[ _]?signature|thought[ _]?signature is (?:not valid|invalid)"
    r"|item with id '?rs_\w{1,200}'? not found",
    re.IGNORECASE | re.DOTALL,
)
MAX_TEXT: Final = 4096
"""Maximum number of characters of an error message that are searched."""


def reports_refused_thoughts(body: bytes) -> bool:
    """Whether a provider's error is about encrypted or signed reasoning."""
    document = decode_object(body)
    error = document.get("error", document)
    if not isinstance(error, dict):
        return False
    return error.get("code") == _CODE or bool(_WORDS.search(str(error.get("message", ""))[:MAX_TEXT]))


def remove_thoughts(wire: WireFormat, body: bytes, own_messages: int) -> bytes | None:
    """The body of a request without encrypted or signed reasoning, except in its last `own_messages` messages. None if
    the request has no such reasoning, or if the body is unreadable.
    """
    try:
        return wire.remove_thoughts(body, own_messages)
    except (msgspec.MsgspecError, KeyError, RecursionError, UnicodeDecodeError):
        return None
