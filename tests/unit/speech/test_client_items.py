"""A client's messages are accepted within limits, and otherwise refused before they cost work."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from fairlead_speech.cascaded.config import BadEvent
from fairlead_speech.cascaded.conversation import MAX_PARTS, cut_result, message_parts

SOUND = b"\0\x10" * 2400
"""100 ms of audio."""


def part(audio: bytes, **more: Any) -> dict[str, Any]:
    return {"type": "input_audio", "audio": base64.b64encode(audio).decode(), **more}


async def refusal(parts: list[dict[str, Any]], room: int = 1 << 20) -> str:
    with pytest.raises(BadEvent) as refused:
        await message_parts({"content": parts}, room)
    return refused.value.code


async def test_audio_of_several_parts_is_joined_and_left_out_of_what_is_shown() -> None:
    written = {"type": "input_text", "text": "this"}
    parts, audio = await message_parts({"content": [written, part(SOUND), part(SOUND)]}, 1 << 20)
    assert (parts, audio) == ([written, {"type": "input_audio"}, {"type": "input_audio"}], SOUND * 2)


async def test_audio_with_a_transcript_is_not_transcribed_again() -> None:
    assert (await message_parts({"content": [part(b"\0\0", transcript="hi")]}, 1 << 20))[1] == b""


async def test_parts_beyond_the_bound_are_refused_unread() -> None:
    parts = [{"type": "input_audio", "audio": "no base64!"}] * (MAX_PARTS + 1)
    assert await refusal(parts) == "array_above_max_length"


async def test_audio_beyond_the_room_is_refused_undecoded() -> None:
    assert await refusal([part(SOUND), {"type": "input_audio", "audio": "!" * 8000}], 4800) == "input_audio_buffer_full"


async def test_a_moment_of_audio_is_not_a_turn() -> None:
    assert await refusal([part(SOUND[2:])]) == "invalid_value"


@pytest.mark.parametrize("character", ["x", "ä", "\0", "🎲", '"'])
def test_a_long_result_is_cut_with_a_mark(character: str) -> None:
    long = {"type": "function_call_output", "output": character * 9000}
    cut = cut_result(long, 4096)["output"]
    assert cut.endswith("(cut off here: the result is too long)")
    assert 3800 < len(msgspec.json.encode(cut)) <= 4096 + 2
    assert cut_result(long, 1 << 20) is long
