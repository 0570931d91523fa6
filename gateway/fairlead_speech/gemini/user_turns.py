"""Turns of a Gemini Live user, and the messages that send them to a provider. Does no I/O."""

from __future__ import annotations

import base64
import re
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final

import msgspec

from fairlead_speech.cascaded.audio import BadAudio, decode
from fairlead_speech.gemini.messages import Message, has_member, key, member, members, text

PIECE_BYTES: Final = 48_000
"""Bytes of audio in one message to the provider, for a turn from the queue: 64 KB of base64."""
MAX_PENDING: Final = 64
"""Maximum number of contents that wait to be sent to the provider. If there are more, the oldest are dropped."""
MAX_PENDING_BYTES: Final = 12 << 20
"""Maximum number of bytes of JSON of the waiting contents, which are sent in one message. Providers accept messages of
16 MiB."""
_PCM_TYPE: Final = re.compile(r"audio/(?:pcm|l16)(?:;\s*[a-z]+=[\w.]+)*", re.IGNORECASE)
_RATE_PARAMETER: Final = re.compile(r";\s*rate=(\d{1,6})", re.IGNORECASE)
_DEFAULT_RATE: Final = 16_000
_ALLOWED_RATES: Final = range(4_000, 192_001)
_encode: Final = msgspec.json.encode
INTERRUPTION: Final = _encode({"clientContent": {"turnComplete": False}})
"""Message that adds nothing to the conversation, but interrupts the provider, as every `clientContent` does."""
ACTIVITY_START: Final = _encode({"realtimeInput": {"activityStart": {}}})
ACTIVITY_END: Final = _encode({"realtimeInput": {"activityEnd": {}}})


class UserTurn(msgspec.Struct):
    """Turn of the user, spoken or written."""

    audio: bytes = b""
    rate: int = _DEFAULT_RATE
    """Samples per second."""
    message: Message | None = None
    """The client's message of a written turn; None for a spoken turn."""
    size: int = 0
    """Bytes that the turn occupies in the queue."""
    words: str = ""
    """Words of the turn; empty before the transcription."""
    transcript_sent: bool = False
    """Whether the transcript of a spoken turn was sent to the client."""

    @property
    def spoken(self) -> bool:
        """Whether the turn is spoken."""
        return self.message is None

    def contents(self) -> list[Message]:
        """Convert the turn to contents, the elements of a conversation in Gemini's API."""
        if self.message is None:
            return [text_content("user", self.words)] if self.words else []
        if has_member(self.message, "clientContent"):
            return members(member(self.message, "clientContent"), "turns")
        return [text_content("user", text(member(self.message, "realtimeInput"), "text"))]


class PendingContents:
    """Contents of the conversation that have to be sent to the provider."""

    def __init__(self) -> None:
        self._contents: deque[bytes] = deque()
        self._size = 0

    def add(self, contents: Sequence[Message]) -> None:
        """Add contents. If the limits are exceeded, drop the oldest contents."""
        for content in contents:
            self._contents.append(_encode(content))
            self._size += len(self._contents[-1])
        while len(self._contents) > MAX_PENDING or self._size > MAX_PENDING_BYTES:
            self._size -= len(self._contents.popleft())

    def message(self) -> bytes | None:
        """Remove all contents and return them as one message; None if there are none."""
        turns = [msgspec.Raw(content) for content in self._contents]
        self._contents.clear()
        self._size = 0
        return _encode({"clientContent": {"turns": turns, "turnComplete": False}}) if turns else None


def text_content(role: str, message_text: str) -> Message:
    """Make a content with one text part."""
    return {"role": role, "parts": [{"text": message_text}]}


def audio_message(audio: bytes, rate: int) -> bytes:
    """Make a `realtimeInput` message with audio."""
    blob = {"data": base64.b64encode(audio).decode(), "mimeType": f"audio/pcm;rate={rate}"}
    return _encode({"realtimeInput": {"audio": blob}})


def turn_messages(turns: Sequence[UserTurn]) -> Iterator[bytes]:
    """Yield messages that send turns to a provider. Consecutive spoken turns are sent as one turn."""
    activity_open = False
    for turn in turns:
        if turn.spoken and not activity_open:
            yield ACTIVITY_START
        elif not turn.spoken and activity_open:
            yield ACTIVITY_END
        activity_open = turn.spoken
        for start in range(0, len(turn.audio), PIECE_BYTES):
            yield audio_message(turn.audio[start : start + PIECE_BYTES], turn.rate)
        if turn.message is not None:
            yield _encode(turn.message)
    if activity_open:
        yield ACTIVITY_END


async def input_audio(realtime_input: Message, remaining: Message) -> AsyncIterator[tuple[bytes, int] | None]:
    """Decode the audio of a client's `realtimeInput`. For each blob of audio, yields PCM and its samples per second;
    for each other blob, None. `remaining`: a copy of `realtime_input` from which decoded audio is removed. Blobs are
    decoded one by one, because a message may have a hundred thousand of them.
    """
    for name in ("audio", "mediaChunks"):
        blobs, other_blobs = members(realtime_input, name), []
        for blob in blobs:
            audio = await _pcm(blob)
            if audio is None:
                other_blobs.append(blob)
            yield audio
        if has_member(realtime_input, name) and not other_blobs:
            del remaining[key(realtime_input, name)]
        elif len(other_blobs) < len(blobs):
            remaining[key(realtime_input, name)] = other_blobs


async def _pcm(blob: dict[str, Any]) -> tuple[bytes, int] | None:
    media_type = text(blob, "mimeType")
    if _PCM_TYPE.fullmatch(media_type) is None:
        return None  # forwarded to the provider unchanged
    rate_match = _RATE_PARAMETER.search(media_type)
    rate = int(rate_match[1]) if rate_match is not None else _DEFAULT_RATE
    try:
        return (await decode(text(blob, "data")), rate) if rate in _ALLOWED_RATES else None
    except BadAudio:
        return None
