"""Strict reader of a peer's WebSocket messages, before the gateway decides by them or passes them on. No I/O here.

A message that two parsers could read differently is not passed on: the gateway would decide about one reading, and the
other side act on the other. So each is decoded strictly (RFC 8259, no member twice, none that only looks like a known
one), and the bytes that were read are passed on. Small messages of audio pass by their exact form instead, which holds
for every parser. Nothing is decoded above a bound in bytes and values, as decoding blocks the event loop.
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
"""Bytes of a client's message without its media."""
MAX_VALUES: Final = 20_000
"""JSON values of a client's message."""
MAX_FORM_BYTES: Final = 64 << 10
"""Bytes up to which a message of audio is matched with its form, at 1 ns a byte; splitting a larger one is faster."""
MIN_MEDIA_BYTES: Final = 1 << 10
"""Least bytes of a string of base64 that counts as media."""
PIECE_BYTES: Final = 64 << 10
"""Bytes of messages that are read in one step of the event loop: about 1 ms."""
_MESSAGE_COST: Final = 1 << 10
"""Bytes that each message counts for in addition to its own."""
SPACE: Final = rb"[ \t\r\n]*+"
PLAIN: Final = rb'"[ !#-\[\]-~]*+"'
"""String of printable ASCII without escapes, which every parser reads the same way."""
BASE64: Final = rb'"[A-Za-z0-9+/=_-]*+"'
"""String of base64, of either alphabet (RFC 4648)."""
_MEDIA_HEAD: Final = re.compile(rb"data:[\w.+-]{1,64}/[\w.+-]{1,64}(?:;[\w.+=-]{1,64}){0,8},")
_BASE64_BYTES: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-"
_object: Final = msgspec.json.Decoder(dict[str, Any]).decode
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class RefusedMessage(ValueError):
    """Message that the gateway refuses."""


class UnreadableMessage(RefusedMessage):
    """Message that is not valid in its wire format, or that parsers read differently."""


class TooLargeMessage(RefusedMessage):
    """Message with more bytes or values than the gateway reads."""


class BinaryMessage(RefusedMessage):
    """Binary message in a wire format whose messages are text."""


class MessageBounds(msgspec.Struct, frozen=True):
    """Bounds of one message without its media."""

    bytes: int = MAX_BYTES
    values: int = MAX_VALUES


OF_CLIENT: Final = MessageBounds()
OF_PROVIDER: Final = MessageBounds(4 * MAX_BYTES, 2 * MAX_VALUES)
"""Bounds of a provider's message: it repeats what a client sent, with the gateway's tools, and may escape all but
ASCII.
"""


class MessageReader:
    """Reader of the messages of one side of a session."""

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
        """`audio`: form of a message of audio. `binary`: whether binary messages are taken. `passes_audio`: whether
        messages of audio are forwarded unread. `repairs`: whether lone surrogates are replaced. `fault`: returns a
        sentence about what is wrong with a message; None: nothing.
        """
        self._bounds = bounds
        self._audio = audio
        self._fault = fault
        self._repairs = repairs
        self.binary = binary
        self.passes_audio = passes_audio

    def is_audio(self, payload: bytes) -> bool:
        """Whether a message is small and has the form of audio."""
        return len(payload) <= MAX_FORM_BYTES and self._audio.fullmatch(payload) is not None

    def repair(self, payload: bytes) -> bytes:
        """The message with lone surrogates replaced, where `repairs` is set: servers cut texts within a character."""
        return replace_lone_surrogates(payload) if self._repairs else payload

    def check(self, payload: bytes) -> Message:
        """Decode a message without its media. Raises RefusedMessage above a bound, and where parsers could differ about
        it.
        """
        bounds = self._bounds
        if len(payload) > bounds.bytes:
            payload = without_media(payload, bounds)
        if (dear := explain_cost(payload, bounds.values)) is not None:
            raise TooLargeMessage(f"a message may not hold {dear}")
        message = read(payload)
        if members.has_repeated_member(payload):
            raise UnreadableMessage("a message may have no member twice in one object")
        if (fault := self._fault(message)) is not None:
            raise UnreadableMessage(fault)
        return message


class ReadingPace:
    """Pace of reading: a side that sends much waits for the event loop before each further PIECE_BYTES."""

    def __init__(self, reading: asyncio.Lock) -> None:
        """`reading` is shared by all sessions: one of them reads a piece at a time."""
        self._reading = reading
        self._left = PIECE_BYTES

    async def take(self, size: int) -> None:
        """Account for a message of `size` bytes; wait for the event loop where it completes a piece."""
        self._left -= size + _MESSAGE_COST
        if self._left < 0:
            self._left = PIECE_BYTES
            async with self._reading:
                await asyncio.sleep(0)


def read(payload: bytes) -> Message:
    """Decode a message as an object, without a bound. Raises UnreadableMessage."""
    try:
        return _object(payload)
    except RecursionError as error:
        raise UnreadableMessage("the message is nested too deeply") from error
    except _UNREADABLE as error:
        raise UnreadableMessage(f"a message must be an object of JSON in UTF-8: {error}") from error


def without_media(payload: bytes, bounds: MessageBounds) -> bytes:
    """The message with empty strings in place of its media: long strings of base64, or data URLs of it. Raises
    TooLargeMessage where the rest is above the bounds.
    """
    too_large = TooLargeMessage(f"a message may have {bounds.bytes >> 20} MiB beside its media in base64")
    if payload.count(b'"') > 4 * bounds.values:  # quotes of names and texts of the allowed number of values
        raise too_large
    parts, size = [], 0
    for part in payload.split(b'"'):
        parts.append(b"" if len(part) >= MIN_MEDIA_BYTES and _is_media(part) else part)
        size += len(parts[-1]) + 1
        if size > bounds.bytes:
            raise too_large
    return b'"'.join(parts)


def _is_media(string: bytes) -> bool:
    head = _MEDIA_HEAD.match(string, 0, 1024)
    start = head.end() if head is not None else 0
    pieces = (string[at : at + PIECE_BYTES] for at in range(start, len(string), PIECE_BYTES))
    return not any(piece.translate(None, _BASE64_BYTES) for piece in pieces)
