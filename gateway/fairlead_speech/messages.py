"""Strict reader of the WebSocket messages of a client or provider, which checks each message before the gateway acts on
it or forwards it.

Messages that two parsers could interpret differently are refused: otherwise, the gateway could decide by one meaning,
and the receiver act on another. So each message is decoded strictly: RFC 8259, no repeated member, and no member whose
name only resembles a name that the gateway knows. Then the same bytes are forwarded. Small messages with audio are not
decoded, but matched with a regular expression, whose matches all parsers interpret in the same way. Messages above a
limit of bytes or values are refused, because decoding them would block the event loop. Does no I/O.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from fairlead_mcp import members
from fairlead_mcp.surrogates import replace_lone_surrogates
from fairlead_mcp.value_count import explain_cost

Message: TypeAlias = dict[str, Any]
MAX_BYTES: Final = 1 << 20
"""Maximum number of bytes of a client's message, not counting its media."""
MAX_VALUES: Final = 20_000
"""Maximum number of JSON values in a client's message."""
MAX_MATCHED_BYTES: Final = 64 << 10
"""Bytes up to which a message with audio is matched with a regular expression, which takes 1 ns per byte. Larger
messages are split at their quotes, which is faster.
"""
MIN_MEDIA_BYTES: Final = 1 << 10
"""Minimum length of a string of base64 that counts as media."""
PIECE_BYTES: Final = 64 << 10
"""Number of bytes of messages that one session reads, in about 1 ms, before other tasks run."""
_MESSAGE_COST: Final = 1 << 10
"""Bytes that each message counts in addition to its size, for the fixed cost of reading a message."""
SPACE: Final = rb"[ \t\r\n]*+"
PLAIN: Final = rb'"[ !#-\[\]-~]*+"'
"""Regular expression for a JSON string of printable ASCII without escapes, which all parsers read in the same way."""
BASE64: Final = rb'"[A-Za-z0-9+/=_-]*+"'
"""Regular expression for a JSON string of base64, standard or URL-safe (RFC 4648)."""
_DATA_URL_PREFIX: Final = re.compile(rb"data:[\w.+-]{1,64}/[\w.+-]{1,64}(?:;[\w.+=-]{1,64}){0,8},")
_BASE64_BYTES: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-"
_decode_object: Final = msgspec.json.Decoder(dict[str, Any]).decode
_DECODE_ERRORS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class RefusedMessage(ValueError):
    """Message that the gateway refuses."""


class UnreadableMessage(RefusedMessage):
    """Message that is invalid in its wire format, or that parsers could read differently."""


class TooLargeMessage(RefusedMessage):
    """Message with more bytes or values than the gateway accepts."""


class BinaryMessage(RefusedMessage):
    """Binary message in a wire format that allows only text messages."""


class MessageBounds(msgspec.Struct, frozen=True):
    """Size limits of one message, not counting its media: bytes and JSON values."""

    bytes: int = MAX_BYTES
    values: int = MAX_VALUES


OF_CLIENT: Final = MessageBounds()
OF_PROVIDER: Final = MessageBounds(4 * MAX_BYTES, 2 * MAX_VALUES)
"""Limits of a provider's message. They are higher than a client's, because the provider repeats the client's data
together with the gateway's tools, and may write each character that is not ASCII as an escape of six bytes.
"""


class MessageReader:
    """Checks the messages that one side of a session, client or provider, sends."""

    def __init__(
        self,
        bounds: MessageBounds,
        audio: re.Pattern[bytes],
        *,
        binary: bool,
        passes_audio: bool,
        repairs: bool = False,
        fault: Callable[[Message], str | None] = lambda _: None,
    ) -> None:
        """`audio`: pattern of messages with audio. `binary`: whether binary messages are allowed. `passes_audio`:
        whether messages that match `audio` are forwarded without processing. `repairs`: whether lone surrogates are
        replaced. `fault`: describes what is invalid in a message, or returns None.
        """
        self._bounds = bounds
        self._audio = audio
        self._fault = fault
        self._repairs = repairs
        self.binary = binary
        self.passes_audio = passes_audio

    def is_audio(self, payload: bytes) -> bool:
        """Whether a message is small and matches the pattern of audio messages."""
        return len(payload) <= MAX_MATCHED_BYTES and self._audio.fullmatch(payload) is not None

    def repair(self, payload: bytes) -> bytes:
        """Replace lone surrogates if `repairs` is set. Servers that cut a text within a character send them."""
        return replace_lone_surrogates(payload) if self._repairs else payload

    def check(self, payload: bytes) -> Message:
        """Decode a message without its media. Raises RefusedMessage if a limit is exceeded, or if parsers could read
        the message differently.
        """
        bounds = self._bounds
        if len(payload) > bounds.bytes:
            payload = without_media(payload, bounds)
        if (cost_fault := explain_cost(payload, bounds.values)) is not None:
            raise TooLargeMessage(f"a message may not have {cost_fault}")
        message = read(payload)
        if members.has_repeated_member(payload):
            raise UnreadableMessage("an object has a member twice")
        if (fault := self._fault(message)) is not None:
            raise UnreadableMessage(fault)
        return message


class ReadingPace:
    """Limits the reading of one side of a session to PIECE_BYTES at a time; then other tasks run."""

    def __init__(self, lock: asyncio.Lock) -> None:
        """`lock`: lock that all sessions share, so that only one of them begins its next piece per iteration of the
        event loop.
        """
        self._lock = lock
        self._remaining_bytes = PIECE_BYTES

    async def take(self, size: int) -> None:
        """Count a message of `size` bytes. If this exceeds a piece, let other tasks run first."""
        self._remaining_bytes -= size + _MESSAGE_COST
        if self._remaining_bytes < 0:
            self._remaining_bytes = PIECE_BYTES
            async with self._lock:
                await asyncio.sleep(0)


def read(payload: bytes) -> Message:
    """Decode a message, which must be an object, without size limits. Raises UnreadableMessage."""
    try:
        return _decode_object(payload)
    except RecursionError as error:
        raise UnreadableMessage("the message is nested too deeply") from error
    except _DECODE_ERRORS as error:
        raise UnreadableMessage(f"a message must be a JSON object in UTF-8: {error}") from error


def without_media(payload: bytes, bounds: MessageBounds) -> bytes:
    """Replace the media of a message by empty strings. Media are long strings of base64, and data URLs with base64.
    Raises TooLargeMessage if what remains exceeds the limits.
    """
    too_large = TooLargeMessage(f"a message may have at most {bounds.bytes >> 20} MiB without its base64 media")
    if payload.count(b'"') > 4 * bounds.values:  # more quotes than so many values, each with a name, can have
        raise too_large
    parts, size = [], 0
    for part in payload.split(b'"'):
        parts.append(b"" if len(part) >= MIN_MEDIA_BYTES and _is_media(part) else part)
        size += len(parts[-1]) + 1
        if size > bounds.bytes:
            raise too_large
    return b'"'.join(parts)


def _is_media(string: bytes) -> bool:
    prefix = _DATA_URL_PREFIX.match(string, 0, 1024)
    start = prefix.end() if prefix is not None else 0
    pieces = (string[offset : offset + PIECE_BYTES] for offset in range(start, len(string), PIECE_BYTES))
    return not any(piece.translate(None, _BASE64_BYTES) for piece in pieces)
