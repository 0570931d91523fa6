"""Binary events of ConverseStream are parsed however they are cut, and rounds are merged into one message."""

from __future__ import annotations

import json
import struct
import zlib

import pytest

from bedrockworld import message_of
from fairlead_formats.providers.bedrock.event_stream import EventStreamParser, write_message
from fairlead_formats.providers.bedrock.fake import BedrockApi
from fairlead_formats.providers.bedrock.stream import KEEP_ALIVE, BedrockStream
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.protocol import BadStream, InnerCall
from fairlead_mcp.errors import TooLarge

MAX = 1 << 20
TURN = ScriptedTurn("Grüße 🪢", [ScriptedCall("theirs", {"q": 1})], thoughts=["Hm, hm."])
ADD = ScriptedCall("demo__add", {"a": 2})
# a message with headers of all types of the specification, and the payload {}
HEADERS = b"".join(
    bytes((1,)) + name + bytes((kind,)) + value
    for name, kind, value in (
        (b"a", 0, b""),
        (b"b", 1, b""),
        (b"c", 2, b"\1"),
        (b"d", 3, b"\0\1"),
        (b"e", 4, b"\0\0\0\1"),
        (b"f", 5, bytes(8)),
        (b"g", 6, b"\0\2xy"),
        (b"h", 8, bytes(8)),
        (b"i", 9, bytes(16)),
    )
)
EVENT_TYPE = bytes((11,)) + b":event-type" + bytes((7,)) + b"\0\4ping"


def message(headers: bytes, payload: bytes) -> bytes:
    """An event-stream message, encoded by the specification without the code under test."""
    lengths = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    head = lengths + struct.pack(">I", zlib.crc32(lengths)) + headers + payload
    return head + struct.pack(">I", zlib.crc32(head))


def stream_turns(*turns: ScriptedTurn) -> list[bytes]:
    api = BedrockApi()
    return [b"".join(map(api.stream_event, api.events(turn, number, {}))) for number, turn in enumerate(turns, 1)]


def parse_events(body: bytes) -> list[bytes]:
    return [event.data for event in EventStreamParser(MAX).feed(body)]


def decode_events(body: bytes) -> list[tuple[str, object]]:
    return [pair for data in parse_events(body) for pair in json.loads(data).items()]


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_events_are_parsed_from_pieces_of_any_length(size: int) -> None:
    (body,) = stream_turns(TURN)
    parser = EventStreamParser(MAX)
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    assert [event.data for piece in pieces for event in parser.feed(piece)] == parse_events(body)


def test_headers_of_every_type_are_skipped_but_for_strings() -> None:
    assert parse_events(message(HEADERS + EVENT_TYPE, b'{"x":1}')) == [b'{"ping":{"x":1}}']
    assert parse_events(message(EVENT_TYPE, b"")) == [b'{"ping":{}}']
    assert parse_events(write_message("ping", b'{"x":1}')) == [b'{"ping":{"x":1}}']


@pytest.mark.parametrize("position", [0, 5, 9, 20, -3])
def test_a_damaged_message_breaks_the_stream(position: int) -> None:
    body = bytearray(write_message("messageStart", b'{"role":"assistant"}'))
    body[position] ^= 1
    with pytest.raises(BadStream, match="damaged"):
        parse_events(bytes(body))


@pytest.mark.parametrize("headers", [b"\5a", b"\1a\7\0\xff", b"\1a\x0b", b"\1\xff\7\0\0"])
def test_headers_that_are_cut_or_unknown_break_the_stream(headers: bytes) -> None:
    with pytest.raises(BadStream, match="header"):
        parse_events(message(headers, b"{}"))


def test_a_message_above_the_limit_is_not_read() -> None:
    with pytest.raises(TooLarge):
        EventStreamParser(100).feed(write_message("ping", b'{"x":"%s"}' % (b"x" * 100))[:20])


def test_an_error_of_the_stream_states_its_code() -> None:
    names = {":message-type": "error", ":error-code": "InternalFailure", ":error-message": "it broke"}
    headers = b"".join(
        bytes((len(name),)) + name.encode() + b"\7" + struct.pack(">H", len(value)) + value.encode()
        for name, value in names.items()
    )
    (data,) = parse_events(message(headers, b""))
    with pytest.raises(BadStream) as raised:
        BedrockStream(None).feed(data)
    assert json.loads(raised.value.error or b"") == {"__type": "InternalFailure", "message": "it broke"}


def test_an_exception_in_a_stream_is_the_providers_error() -> None:
    body = write_message("throttlingException", b'{"message":"slow down"}', "exception")
    stream = BedrockStream(["theirs"])
    with pytest.raises(BadStream) as raised:
        stream.feed(*parse_events(body))
    error = LlmError(502, str(raised.value), "bad_answer")
    assert decode_events(stream.write_error(error, raised.value.error)) == [
        ("throttlingException", {"__type": "ThrottlingException", "message": "slow down"})
    ]
    assert [name for name, _ in decode_events(stream.write_error(error))] == ["serviceUnavailableException"]


def test_a_stream_without_tools_of_the_gateway_passes_every_event() -> None:
    (body,) = stream_turns(TURN)
    stream = BedrockStream(None)
    assert b"".join(map(stream.feed, parse_events(body))) + stream.finish({"fairlead": {}}) == b"".join(
        write_message(name, json.dumps(payload).encode()) for name, payload in decode_events(body)
    )
    assert (stream.done, stream.ended) == (True, True)


def test_rounds_are_merged_into_one_message_without_calls_of_the_gateway() -> None:
    first, second = stream_turns(
        ScriptedTurn("First.", [ADD], thoughts=["Hm."]), ScriptedTurn("Then.", TURN.calls, thoughts=["So."])
    )
    stream = BedrockStream(["theirs"])
    out = b"".join(map(stream.feed, parse_events(first))) + stream.end_round()
    assert [block["toolUse"]["name"] for block in stream.message["content"] if "toolUse" in block] == ["demo__add"]
    stream.next_round()
    out += (
        b"".join(map(stream.feed, parse_events(second)))
        + stream.end_round()
        + stream.finish({"fairlead": {"rounds": 2}})
    )
    received = decode_events(out)
    names = [name for name, _ in received]
    assert [names.count(name) for name in ("messageStart", "messageStop", "metadata")] == [1, 1, 1]
    assert names[-2:] == ["messageStop", "metadata"]
    content = message_of(received)["content"]
    assert [next(iter(block)) for block in content] == [
        "reasoningContent",
        "text",
        "reasoningContent",
        "text",
        "toolUse",
    ]
    assert [block["reasoningContent"]["reasoningText"]["signature"] for block in (content[0], content[2])] == [
        json.loads(stream_signature(first)),
        "fairlead.0.",
    ]
    metadata = dict(received)["metadata"]
    assert isinstance(metadata, dict)
    assert (metadata["usage"]["inputTokens"], metadata["fairlead"]) == (200, {"rounds": 2})


def stream_signature(body: bytes) -> str:
    """Signature in a stream, as JSON."""
    deltas = [payload["delta"] for name, payload in decode_events(body) if name == "contentBlockDelta"]  # type: ignore[index]
    return next(
        json.dumps(delta["reasoningContent"]["signature"])
        for delta in deltas
        if "signature" in delta.get("reasoningContent", {})
    )


def test_a_call_of_execute_tool_is_replaced_by_the_call_that_it_names() -> None:
    (body,) = stream_turns(ScriptedTurn("", [ScriptedCall("execute_tool", {"name": "theirs"}, id="t1")]))
    stream = BedrockStream(["theirs"])
    out = b"".join(map(stream.feed, parse_events(body))) + stream.end_round()
    out += stream.unwrap({"t1": InnerCall("theirs", b'{"q":1}')}) + stream.finish({})
    call = {"toolUse": {"toolUseId": "t1", "name": "theirs", "input": {"q": 1}}}
    assert message_of(decode_events(out))["content"] == stream.message["content"] == [call]
    assert dict(decode_events(out))["messageStop"] == {"stopReason": "tool_use", "p": "abcdefgh"}


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded", "guardrail_intervened"])
def test_calls_of_an_answer_that_was_cut_are_not_run(reason: str) -> None:
    (body,) = stream_turns(ScriptedTurn("", [ADD], finish_reason=reason))
    stream = BedrockStream([])
    _ = [stream.feed(data) for data in parse_events(body)]
    assert stream.message["content"] == []


def redacted(*, starts: bool) -> list[bytes]:
    """Events of a round with reasoning that only its model can read, as some models write it: after an empty start."""
    reasoning = {"contentBlockIndex": 0, "delta": {"reasoningContent": {"redactedContent": "T3BhcXVl"}}}
    events: list[tuple[str, object]] = [
        ("messageStart", {"role": "assistant"}),
        *([("contentBlockStart", {"contentBlockIndex": 0, "start": {}})] if starts else []),
        ("contentBlockDelta", reasoning),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"text": "So."}}),
        ("contentBlockStop", {"contentBlockIndex": 1}),
        ("messageStop", {"stopReason": "end_turn"}),
        ("metadata", {"usage": {}}),
    ]
    return [json.dumps({name: payload}).encode() for name, payload in events]


@pytest.mark.parametrize("starts", [False, True])
def test_redacted_reasoning_goes_back_to_its_model_and_to_clients_in_the_first_round_alone(*, starts: bool) -> None:
    stream = BedrockStream(["theirs"])
    content: list[list[str]] = []
    for _ in range(2):
        out = b"".join(map(stream.feed, redacted(starts=starts)))
        content.append([next(iter(pair[1]["delta"])) for pair in decode_events(out) if "Delta" in pair[0]])  # type: ignore[index]
        assert stream.message["content"][0] == {"reasoningContent": {"redactedContent": "T3BhcXVl"}}
        stream.next_round()
    assert content == [["reasoningContent", "text"], ["text"]]


def test_a_sign_of_life_is_an_event_of_its_own() -> None:
    assert decode_events(KEEP_ALIVE) == [("keepAlive", {})]
