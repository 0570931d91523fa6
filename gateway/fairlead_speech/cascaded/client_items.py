"""Items that a client adds to a conversation: what is taken of them, bounded. No I/O here."""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_speech.cascaded.audio import BadAudio, decoded, milliseconds
from fairlead_speech.cascaded.config import BadEvent
from fairlead_speech.cascaded.input_buffer import LEAST_MS
from fairlead_speech.realtime_events import Event, members, text

MOST_PARTS: Final = 64
"""Parts of one message."""
_CUT: Final = " (cut off here: the result is too long)"
_PARTS: Final = frozenset({"input_text", "output_text", "text", "input_audio", "output_audio"})
"""Types of parts that a message of a client may have."""
_encode: Final = msgspec.json.encode


async def message_parts(item: Event, room: int) -> tuple[list[Event], bytes]:
    """Parts of a message without their audio; and the audio that is to be heard, joined. `room`: bytes of audio that
    may come. Raises BadEvent.
    """
    given = members(item, "content")
    if len(given) > MOST_PARTS:
        raise BadEvent("array_above_max_length", f"a message has up to {MOST_PARTS} parts here", "item.content")
    if any(part.get("type") not in _PARTS for part in given):
        raise BadEvent("invalid_value", "messages have text and audio here", "item.content")
    if sum(len(text(part, "audio")) * 3 // 4 for part in given) > room:
        raise BadEvent("input_audio_buffer_full", "4 minutes of audio wait already", "item.content")
    audio = bytearray()
    try:
        for part in given:
            audio += await decoded(text(part, "audio"))
    except BadAudio as error:
        raise BadEvent("invalid_value", str(error), "item.content.audio") from error
    parts = [{name: value for name, value in part.items() if name != "audio"} for part in given]
    if not audio or any(text(part, "transcript") for part in parts):
        return parts, b""
    if milliseconds(len(audio)) < LEAST_MS:
        raise BadEvent("invalid_value", f"the audio of a message has at least {LEAST_MS} ms", "item.content.audio")
    return parts, bytes(audio)


def cut_result(item: Event, room: int) -> Event:
    """The result of a call with at most so many bytes of JSON as its output, and a mark where it was cut."""
    output = text(item, "output")
    size = len(_encode(output))
    if size <= room:
        return item
    while size > room - len(_CUT) and output:
        # by bytes of JSON, as a character may have up to six of them
        output = output[: min(len(output) * (room - len(_CUT)) // size, len(output) - 1)]
        size = len(_encode(output))
    return {**item, "output": output + _CUT}
