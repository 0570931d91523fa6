"""The gateway reads a message like every other JSON parser, or refuses it; and reading costs little."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from fairlead_mcp.value_count import MAX_DIGITS, explain_cost
from fairlead_speech.cascaded.audio import BadAudio, decode
from fairlead_speech.gemini import messages as live
from fairlead_speech.messages import (
    MAX_BYTES,
    MAX_MATCHED_BYTES,
    MAX_VALUES,
    MessageReader,
    ReadingPace,
    RefusedMessage,
    TooLargeMessage,
    UnreadableMessage,
)
from fairlead_speech.realtime import events as realtime
from fairlead_speech.realtime.tools import has_provider_mcp

READERS = {
    "realtime, client": realtime.CLIENT_MESSAGES,
    "realtime, provider": realtime.PROVIDER_MESSAGES,
    "gemini, client": live.CLIENT_MESSAGES,
    "gemini, provider": live.PROVIDER_MESSAGES,
}
SOUND = base64.b64encode(bytes(range(256))).decode()
APPEND = {"type": "input_audio_buffer.append", "audio": SOUND, "event_id": "mine"}
DELTA = {
    "type": "response.output_audio.delta",
    "event_id": "e",
    "response_id": "r",
    "item_id": "i",
    "output_index": 0,
    "content_index": 0,
    "delta": SOUND,
}
MCP = {"type": "mcp", "server_label": "x", "server_url": "https://x.example"}


def first_of_equals(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs))


def without_case(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Names of members as Go's encoding/json matches them (without case), and as C reads them (up to the first NUL)."""
    return {name.partition("\0")[0].casefold(): value for name, value in pairs}


PARSERS: dict[str, Callable[[bytes], Any]] = {
    "json": json.loads,
    "json, the first of equal members": lambda text: json.loads(text, object_pairs_hook=first_of_equals),
    "msgspec": msgspec.json.decode,
}


with contextlib.suppress(ImportError):
    import orjson

    PARSERS["orjson"] = orjson.loads


def variants(event: dict[str, Any]) -> list[bytes]:
    orders = [dict(order) for order in itertools.permutations(event.items())]
    written = [json.dumps(order, separators=how) for order in orders for how in ((",", ":"), (", ", ": "))]
    return [each.encode() for each in (*written, json.dumps(event, indent=2), f"\n{json.dumps(event)}\r\n")]


@pytest.mark.parametrize("event", [APPEND, {"type": APPEND["type"], "audio": SOUND}])
def test_audio_of_openai_passes_by_its_form_in_every_order(event: dict[str, Any]) -> None:
    for data in variants(event):
        assert realtime.CLIENT_MESSAGES.is_audio(data), data
        assert realtime.CLIENT_MESSAGES.check(data)["type"] == event["type"]


def test_audio_of_gemini_passes_by_its_form_in_every_spelling() -> None:
    for kind, outer, (inner, listed) in itertools.product(
        ("mimeType", "mime_type"),
        ("realtimeInput", "realtime_input"),
        [("audio", False), ("video", False), ("mediaChunks", True), ("media_chunks", True)],
    ):
        for blob in variants({kind: "audio/pcm;rate=16000", "data": SOUND}):
            data = json.dumps({outer: {inner: [0] if listed else 0}}).encode().replace(b"0", blob)
            assert live.CLIENT_MESSAGES.is_audio(data), data
            assert live.CLIENT_MESSAGES.check(data)


def test_audio_of_providers_passes_by_its_form() -> None:
    message = {"serverContent": {"modelTurn": {"parts": [{"inlineData": {"mimeType": "audio/pcm", "data": SOUND}}]}}}
    for how in (None, 2):
        assert live.PROVIDER_MESSAGES.is_audio(json.dumps(message, indent=how).encode())
        assert realtime.PROVIDER_MESSAGES.is_audio(json.dumps(DELTA, indent=how).encode())
        words = {**DELTA, "type": "response.output_audio_transcript.delta", "delta": "Well, yes", "obfuscation": "x"}
        assert realtime.PROVIDER_MESSAGES.is_audio(json.dumps(words, indent=how).encode())


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"input_audio_buffer.append","audio":"AAAA","audio":"AAAA"}',
        '{"type":"input_audio_buffer.append","audio":"AAAA","event_id":"\\u0041"}',
        '{"type":"input_audio_buffer.append","audio":"AA\\"AA"}',
        '{"type":"input_audio_buffer.append","audio":"AA\nAA"}',
        '{"type":"input_audio_buffer.append","audio":"AAäA"}',
        '{"type":"input_audio_buffer.append","event_id":"e"}',
        '{"type":"input_audio_buffer.append","audio":"AAAA"}{}',
        '{"type":"input_audio_buffer.append","audio":"AAAA",}',
        '{"type":"input_audio_buffer_append","audio":"AAAA"}',
        '\ufeff{"type":"input_audio_buffer.append","audio":"AAAA"}',
        f'{{"type":"input_audio_buffer.append","audio":"{"A" * MAX_MATCHED_BYTES}"}}',
        '{"realtimeInput":{"audio":{"data":"AAAA","mimeType":"x","data":"AAAA"}}}',
        '{"realtimeInput":{"audio":{"data":"AAAA","mimeType":"x"},"text":"x"}}',
        '{"realtimeInput":{"audio":{"data":"AAAA","mimeType":"x"}},"setup":{}}',
    ],
)
def test_messages_that_are_not_wholly_audio_do_not_pass_by_their_form(text: str) -> None:
    assert not any(reader.is_audio(text.encode()) for reader in READERS.values())


NAMES = st.sampled_from(
    ["type", "Type", "\\u0074ype", "tools", "Tools", "session", "audio", "setup", "realtimeInput", "x"]
)
TEXTS = st.sampled_from(
    [
        '"mcp"',
        '"session.update"',
        '"input_audio_buffer.append"',
        '"\\ud800"',
        '"\\ud83c\\udfb2"',
        '"\x01"',
        '"ä"',
        '"{,}"',
        '"\\\\"',
        '"\\""',
        "NaN",
        "1",
        "1e5",
        "-0",
        "1e999",
        "01",
        "null",
        "true",
        '""',
        "Infinity",
        "'x'",
    ]
)
PAIRS = st.tuples(NAMES, st.deferred(lambda: VALUES))
OBJECTS = st.lists(PAIRS, max_size=4).map(
    lambda pairs: "{" + ",".join(f'"{name}":{value}' for name, value in pairs) + "}"
)
VALUES: st.SearchStrategy[str] = st.one_of(
    TEXTS, OBJECTS, st.lists(st.deferred(lambda: VALUES), max_size=3).map(lambda each: f"[{','.join(each)}]")
)
SPOKEN = '{"realtimeInput":{"audio":{"data":"AA==","mimeType":"x"}}}'
AUDIO = st.sampled_from([json.dumps(APPEND), json.dumps(DELTA), SPOKEN])
DAMAGE = st.sampled_from(
    [b"", b'"', b",", b'","type":"session.update', b"\\", b"\xff", b"\xef\xbb\xbf", b"{", b"}", b" ", b"\0"]
)


@st.composite
def damaged_frames(draw: st.DrawFn) -> bytes:
    """An object or a frame of audio as JSON, with some bytes replaced."""
    data = bytearray(draw(st.one_of(OBJECTS, AUDIO)).encode())
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        piece = draw(DAMAGE)
        data[at : at + draw(st.integers(0, 2))] = piece
    return bytes(data)


def is_taken(reader: MessageReader, data: bytes) -> bool:
    """Whether the reader accepts a frame."""
    try:
        return reader.is_audio(data) or reader.check(data) is not None
    except RefusedMessage:
        return False


@settings(max_examples=examples(1500))
@given(damaged_frames())
def test_a_frame_is_refused_or_every_parser_reads_the_same(data: bytes) -> None:
    if not any(is_taken(reader, data) for reader in READERS.values()):
        return
    read = {name: json.dumps(parse(data), sort_keys=True) for name, parse in PARSERS.items()}
    assert len({*read.values()}) == 1, read


def spellings_of(name: str, value: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """A member with a name that is the given name or resembles it."""
    escaped = f"\\u{ord(name[0]):04x}{name[1:]}"
    names = st.sampled_from(
        [name, name, name, name.title(), name.upper(), name.replace("s", "ſ"), escaped, f"{name}\\u0000"]
    )
    return st.tuples(names, value).map(lambda pair: f'"{pair[0]}":{pair[1]}')


def object_of(*members: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(st.one_of(*members), min_size=1, max_size=3).map(lambda each: f"{{{','.join(each)}}}")


TOOL = object_of(spellings_of("type", st.sampled_from(['"mcp"', '"function"'])), spellings_of("name", st.just('"add"')))
LISTED = TOOL.map(lambda tool: f"[{tool}]")
CONFIGURED = object_of(spellings_of("type", st.just('"realtime"')), spellings_of("tools", LISTED))
KINDS = st.sampled_from([f'"{APPEND["type"]}"', '"session.update"', '"response.create"'])
EVENTS = object_of(
    spellings_of("type", KINDS),
    spellings_of("audio", st.just('"AAAA"')),
    spellings_of("session", CONFIGURED),
    spellings_of("response", CONFIGURED),
)


@settings(max_examples=examples(3000))
@given(EVENTS.map(str.encode))
def test_no_reader_finds_tools_of_the_provider_that_the_gateway_does_not_see(data: bytes) -> None:
    if not is_taken(realtime.CLIENT_MESSAGES, data):
        return
    seen = json.loads(data)
    for hook in (first_of_equals, without_case, dict):
        event = json.loads(data, object_pairs_hook=hook)
        assert event.get("type") == seen.get("type")
        assert has_provider_mcp(event) == has_provider_mcp(seen)


def test_values_are_counted_only_outside_of_texts() -> None:
    words = json.dumps({"a": '[,{"\\' * 50, 'b", "[': [1, {"c": "\\"}, []]}).encode()
    assert explain_cost(words, 6) == "more than 6 values", "three commas and four openings"
    assert explain_cost(words, 7) is None
    assert explain_cost(b'["' + b'","' * 100 + b'"]', 100) is not None
    assert explain_cost(b'"' * 1000, 100) is None, "it is not JSON: its decoder says so at the third quote"


def test_long_numbers_are_not_decoded_as_they_take_the_square_of_their_digits() -> None:
    digits = b"1" * (MAX_DIGITS + 1)
    assert explain_cost(b'{"a":[1,' + digits + b"]}", 100) == f"a number with more than {MAX_DIGITS} digits"
    assert explain_cost(b'{"a":-0.' + digits + b"}", 100) is not None
    assert explain_cost(b'{"a":"\\"' + digits + b'","b":1}', 100) is None
    assert explain_cost(b'{"a":' + digits[1:] + b"}", 100) is None


@pytest.mark.parametrize("unit", [b"{},", b'"",', b"[[],[]],", b'{"a":1},', b"1,", b'"\\"",'])
def test_a_message_of_15_mebibytes_is_refused_without_being_decoded(unit: bytes) -> None:
    data = b'{"type":"session.update","session":[' + unit * ((15 << 20) // len(unit)) + b"0]}"
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeMessage, match="1 MiB without its base64 media"):
            realtime.CLIENT_MESSAGES.check(data)
        assert tracemalloc.get_traced_memory()[1] < 64 * MAX_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("unit", [b"{},", b'"",', b"[],", b"1,"])
def test_values_beyond_the_bound_are_refused_without_being_decoded(
    unit: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead_speech.messages.read", lambda _: pytest.fail("it was decoded"))
    data = b'{"session":[' + unit * MAX_VALUES + b"0]}"
    with pytest.raises(TooLargeMessage, match="may not have more than 20,000 values"):
        realtime.CLIENT_MESSAGES.check(data)


def test_media_does_not_count_and_is_not_decoded() -> None:
    image = "A" * (3 << 20)
    parts = [f"data:image/png;base64,{image}", image, "data:audio/wav;codecs=1;base64," + image]
    event = {"type": "conversation.item.create", "item": {"content": parts, "text": "x" * 100}}
    message = realtime.CLIENT_MESSAGES.check(json.dumps(event).encode())
    assert message == {"type": event["type"], "item": {"content": ["", "", ""], "text": "x" * 100}}
    for words in (image + " ", "javascript:" + image, image[:-1] + "ä", image[:-1] + '"'):
        with pytest.raises(TooLargeMessage):
            realtime.CLIENT_MESSAGES.check(json.dumps({**event, "item": words}).encode())


def test_a_second_member_after_media_is_detected() -> None:
    image = "A" * (3 << 20)
    with pytest.raises(UnreadableMessage, match="an object has a member twice"):
        realtime.CLIENT_MESSAGES.check(f'{{"type":"x","audio":"{image}","type":"session.update"}}'.encode())


async def test_messages_in_a_row_are_read_a_piece_at_a_time_over_all_sessions() -> None:
    turns = asyncio.Lock()
    read = most = 0

    async def session() -> None:
        nonlocal read
        pace = ReadingPace(turns)
        for _ in range(20):
            await pace.take(MAX_BYTES)
            read += 1

    async def others() -> None:
        nonlocal read, most
        while True:
            most = max(most, read)
            read = 0
            await asyncio.sleep(0)

    watching = asyncio.create_task(others())
    await asyncio.gather(*(session() for _ in range(10)))
    watching.cancel()
    assert most == 1


async def test_small_messages_need_no_turn_of_their_own() -> None:
    turns = asyncio.Lock()
    async with turns:  # taking a turn would wait forever
        pace = ReadingPace(turns)
        for _ in range(20):
            await pace.take(100)


async def test_long_audio_is_decoded_in_pieces() -> None:
    sound = bytes(range(256)) * (8 << 10)
    assert await decode(base64.urlsafe_b64encode(sound).decode()) == sound
    for broken in ("A" * (1 << 20) + "AAA", "A" * ((1 << 20) - 1) + "=AAAA", "ä" * 8):
        with pytest.raises(BadAudio):
            await decode(broken)
