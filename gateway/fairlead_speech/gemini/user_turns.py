"""Turns of a user of Gemini Live, and the messages that send them to a provider. No I/O here."""

from __future__ import annotations

import base64
import re
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final

import msgspec

from fairlead_speech.cascaded.audio import BadAudio, decode
from fairlead_speech.gemini.messages import Message, has, key, member, members, text

PIECE_BYTES: Final = 48_000
"""Bytes of audio in one message to the provider, of a turn that waited: 64 KB of base64."""
MAX_PENDING: Final = 64
"""Contents that wait to be sent to the provider; the oldest are dropped beyond it."""
MAX_PENDING_BYTES: Final = 12 << 20
"""Bytes of JSON of these contents: they are sent in one message, of which a provider takes 16 MiB."""
_PCM: Final = re.compile(r"audio/(?:pcm|l16)(?:;\s*[a-z]+=[\w.]+)*", re.IGNORECASE)
_RATE: Final = re.compile(r";\s*rate=(\d{1,6})", re.IGNORECASE)
_DEFAULT_RATE: Final = 16_000
_RATES: Final = range(4_000, 192_001)
_encode: Final = msgspec.json.encode
INTERRUPTION: Final = _encode({"clientContent": {"turnComplete": False}})
"""Message that interrupts the provider, as every `clientContent` does, and adds nothing."""
ACTIVITY_START: Final = _encode({"realtimeInput": {"activityStart": {}}})
ACTIVITY_END: Final = _encode({"realtimeInput": {"activityEnd": {}}})


class UserTurn(msgspec.Struct):
    """Turn of the user, spoken or written."""

    audio: bytes = b""
    rate: int = _DEFAULT_RATE
    """Samples a second."""
    message: Message | None = None
    """Client's message of a written turn; None for a spoken one."""
    size: int = 0
    """Bytes that the turn occupies."""
    words: str = ""
    """Words of the turn; empty before they are transcribed."""
    transcript_sent: bool = False
    """Whether the client got the transcript of a spoken turn."""

    @property
    def spoken(self) -> bool:
        """Whether the turn is spoken."""
        return self.message is None

    def contents(self) -> list[Message]:
        """Turn as contents of a conversation."""
        if self.message is None:
            return [text_content("user", self.words)] if self.words else []
        if has(self.message, "clientContent"):
            return members(member(self.message, "clientContent"), "turns")
        return [text_content("user", text(member(self.message, "realtimeInput"), "text"))]


class PendingContents:
    """Contents of the conversation that the provider does not have yet."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._bytes = 0

    def add(self, contents: Sequence[Message]) -> None:
        """Add contents."""
        for content in contents:
            self._waiting.append(_encode(content))
            self._bytes += len(self._waiting[-1])
        while len(self._waiting) > MAX_PENDING or self._bytes > MAX_PENDING_BYTES:
            self._bytes -= len(self._waiting.popleft())

    def message(self) -> bytes | None:
        """Take all contents as one message; None where there are none."""
        turns = [msgspec.Raw(each) for each in self._waiting]
        self._waiting.clear()
        self._bytes = 0
        return _encode({"clientContent": {"turns": turns, "turnComplete": False}}) if turns else None


def text_content(role: str, words: str) -> Message:
    """Make a content with a text."""
    return {"role": role, "parts": [{"text": words}]}


def audio_message(audio: bytes, rate: int) -> bytes:
    """Make a message with audio."""
    blob = {"data": base64.b64encode(audio).decode(), "mimeType": f"audio/pcm;rate={rate}"}
    return _encode({"realtimeInput": {"audio": blob}})


def turn_messages(turns: Sequence[UserTurn]) -> Iterator[bytes]:
    """Messages of turns for a provider; spoken turns in a row are one turn to it."""
    before = False
    for turn in turns:
        if turn.spoken and not before:
            yield ACTIVITY_START
        elif not turn.spoken and before:
            yield ACTIVITY_END
        before = turn.spoken
        for start in range(0, len(turn.audio), PIECE_BYTES):
            yield audio_message(turn.audio[start : start + PIECE_BYTES], turn.rate)
        if turn.message is not None:
            yield _encode(turn.message)
    if before:
        yield ACTIVITY_END


async def input_audio(live: Message, remaining: Message) -> AsyncIterator[tuple[bytes, int] | None]:
    """Decode the audio of a client's `realtimeInput`, as PCM with its samples a second; None for a blob of another
    kind. `remaining`: a copy, from which decoded audio is removed. There may be a hundred thousand blobs, so each is
    decoded on demand.
    """
    for name in ("audio", "mediaChunks"):
        blobs, others = members(live, name), []
        for blob in blobs:
            audio = await _pcm(blob)
            if audio is None:
                others.append(blob)
            yield audio
        if has(live, name) and not others:
            del remaining[key(live, name)]
        elif len(others) < len(blobs):
            remaining[key(live, name)] = others


async def _pcm(blob: dict[str, Any]) -> tuple[bytes, int] | None:
    kind = text(blob, "mimeType")
    if _PCM.fullmatch(kind) is None:
        return None  # it is left to the provider
    rate = _RATE.search(kind)
    samples = int(rate[1]) if rate is not None else _DEFAULT_RATE
    try:
        return (await decode(text(blob, "data")), samples) if samples in _RATES else None
    except BadAudio:
        return None
