"""Messages of a peer, read before anything is done by them. No I/O here.

A message that two parsers could read as two things is not passed on: the gateway would decide about the one, and the
other side do the other. So each is decoded strictly (RFC 8259, no member twice, none that only looks like a known one),
and what is passed on are the bytes that were read. Small frames of audio pass by their exact form instead: it holds for
every parser. Nothing is decoded above a bound in bytes and values, as that holds up everybody's calls.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from fairlead_mcp import members
from fairlead_mcp.surrogates import pair
from fairlead_mcp.value_count import too_dear

Message: TypeAlias = dict[str, Any]
MAX_BYTES: Final = 1 << 20
"""Bytes of a client's message beside its media."""
MAX_VALUES: Final = 20_000
"""Values of a client's message."""
MAX_FORM_BYTES: Final = 64 << 10
"""Bytes of a frame of audio that is compared with its form: it takes 1 ns a byte, splitting a larger one takes less."""
MIN_MEDIA_BYTES: Final = 1 << 10
"""Bytes of a string of base64 from which on it is media."""
PIECE_BYTES: Final = 64 << 10
"""Bytes of messages that are read without a turn of the loop for others: about 1 ms."""
_MESSAGE_COST: Final = 1 << 10
"""Bytes that a message counts for beside its own."""
SPACE: Final = rb"[ \t\r\n]*+"
PLAIN: Final = rb'"[ !#-\[\]-~]*+"'
"""A string of printable ASCII without escapes: every parser reads the same."""
BASE64: Final = rb'"[A-Za-z0-9+/=_-]*+"'
"""A string of base64, of either alphabet."""
_MEDIA_HEAD: Final = re.compile(rb"data:[\w.+-]{1,64}/[\w.+-]{1,64}(?:;[\w.+=-]{1,64}){0,8},")
_BASE64_BYTES: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-"
_object: Final = msgspec.json.Decoder(dict[str, Any]).decode
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class RefusedFrame(ValueError):
    """A message that is not taken."""


class UnreadableFrame(RefusedFrame):
    """A message that is not one of its wire format, or that parsers do not agree on."""


class TooLargeFrame(RefusedFrame):
    """A message with more bytes or values than are read."""


class BinaryFrame(RefusedFrame):
    """A binary message of a wire format whose messages are text."""


class FrameBounds(msgspec.Struct, frozen=True):
    """Bounds of one message beside its media."""

    bytes: int = MAX_BYTES
    values: int = MAX_VALUES


OF_CLIENT: Final = FrameBounds()
OF_PROVIDER: Final = FrameBounds(4 * MAX_BYTES, 2 * MAX_VALUES)
"""A provider sends back what a client sent, with the gateway's tools beside it, and perhaps in ASCII alone."""


class FrameReader:
    """Reads the messages of one side of a session."""

    def __init__(
        self,
        bounds: FrameBounds,
        audio: re.Pattern[bytes],
        *,
        binary: bool,
        passes_audio: bool,
        mends: bool = False,
        fault: Callable[[Message], str | None] = lambda _: None,
    ) -> None:
        """`audio`: the form of a frame of audio. `binary`: whether messages may come as binary ones. `passes_audio`:
        whether the session needs no look at frames of audio. `mends`: whether halves of characters are replaced.
        `fault`: a sentence about what is wrong with a message.
        """
        self._bounds = bounds
        self._audio = audio
        self._fault = fault
        self._mends = mends
        self.binary = binary
        self.passes_audio = passes_audio

    def is_audio(self, frame: bytes) -> bool:
        """Whether a frame is audio by its form, and small."""
        return len(frame) <= MAX_FORM_BYTES and self._audio.fullmatch(frame) is not None

    def mended(self, frame: bytes) -> bytes:
        """The frame as it is to be read: servers cut texts within a character, and the session goes on."""
        return pair(frame) if self._mends else frame

    def check(self, frame: bytes) -> Message:
        """The message without its media, once it is certain that every parser reads it so. Raises RefusedFrame."""
        bounds = self._bounds
        if len(frame) > bounds.bytes:
            frame = without_media(frame, bounds)
        if (dear := too_dear(frame, bounds.values)) is not None:
            raise TooLargeFrame(f"a message may not hold {dear}")
        message = read(frame)
        if members.repeats(frame):
            raise UnreadableFrame("a message may have no member twice in one object")
        if (fault := self._fault(message)) is not None:
            raise UnreadableFrame(fault)
        return message


class ReadingPace:
    """Gives the event loop to others while one side sends much that is read: each piece of it waits for a turn."""

    def __init__(self, turns: asyncio.Lock) -> None:
        """`turns` is shared by all sessions: one of them reads a piece at a time."""
        self._turns = turns
        self._left = PIECE_BYTES

    async def take(self, size: int) -> None:
        """Wait for a turn, where a message of that size makes a piece with those before it."""
        self._left -= size + _MESSAGE_COST
        if self._left < 0:
            self._left = PIECE_BYTES
            async with self._turns:
                await asyncio.sleep(0)


def read(frame: bytes) -> Message:
    """A message as an object, without a bound. Raises UnreadableFrame."""
    try:
        return _object(frame)
    except RecursionError as error:
        raise UnreadableFrame("the message is nested too deeply") from error
    except _UNREADABLE as error:
        raise UnreadableFrame(f"a message must be an object of JSON in UTF-8: {error}") from error


def without_media(frame: bytes, bounds: FrameBounds) -> bytes:
    """The message with empty strings in place of its media: of long strings that are base64, or a data URL of it.
    Raises TooLargeFrame where that is more than the bounds allow.
    """
    too_large = TooLargeFrame(f"a message may have {bounds.bytes >> 20} MiB beside its media in base64")
    if frame.count(b'"') > 4 * bounds.values:  # names and texts of as many values as may be
        raise too_large
    left, size = [], 0
    for part in frame.split(b'"'):
        left.append(b"" if len(part) >= MIN_MEDIA_BYTES and _is_media(part) else part)
        size += len(left[-1]) + 1
        if size > bounds.bytes:
            raise too_large
    return b'"'.join(left)


def _is_media(string: bytes) -> bool:
    head = _MEDIA_HEAD.match(string, 0, 1024)
    start = head.end() if head is not None else 0
    pieces = (string[at : at + PIECE_BYTES] for at in range(start, len(string), PIECE_BYTES))
    return not any(piece.translate(None, _BASE64_BYTES) for piece in pieces)
