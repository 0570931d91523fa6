"""Events of several answers are merged into one stream of Anthropic Messages, however the bytes are split."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from anthropic_transcripts import START, TRANSCRIPTS, call_events, end_events, text, turn
from fairlead_formats.providers.anthropic.fake import AnthropicApi
from fairlead_formats.providers.anthropic.stream import AnthropicStream
from fairlead_formats.providers.anthropic.translation.answer import read_stop
from fairlead_formats.providers.anthropic.translation.events import AnthropicEventReader
from fairlead_formats.scripted_turns import ScriptedTurn
from fairlead_formats.wire.protocol import BadStream, TranslationLosses
from transcripts import splits, stream_bytes, without_marks

THINKING = [
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "Sig+/="}},
    {"type": "content_block_stop", "index": 0},
]
STREAMS = {name: each for name, each in TRANSCRIPTS.items() if each.events and "error" not in name}


def body_of(turn: ScriptedTurn) -> bytes:
    return "".join(map(AnthropicApi().stream_event, turn.events or ())).encode()


def events_of(out: bytes) -> list[Any]:
    return [json.loads(line[6:]) for line in out.decode().split("\n") if line.startswith("data: ")]


def feed(stream: AnthropicStream, events: Iterable[Any]) -> list[Any]:
    return events_of(b"".join(stream.feed(json.dumps(event).encode()) for event in events))


@pytest.mark.parametrize("name", STREAMS)
def test_every_split_of_the_bytes_of_a_stream_gives_the_same(name: str) -> None:
    body = body_of(STREAMS[name])
    whole = stream_bytes(AnthropicStream({"theirs"}), [[body]])
    assert whole.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')
    assert {stream_bytes(AnthropicStream({"theirs"}), [pieces]) for pieces in splits(body)} == {whole}


def over_rounds(rounds: list[Any]) -> str:
    return without_marks(stream_bytes(AnthropicStream(set()), rounds).decode())


def test_every_split_of_two_rounds_with_other_line_ends_gives_the_same() -> None:
    first = body_of(turn(START, text(0, "\u00e4"), call_events(1, "ours", '{"q": "\u00e4"}'), end_events("tool_use")))
    second = body_of(turn(START, THINKING, text(1, "\U0001faa2"), end_events("end_turn"), ascii_only=False))
    whole = over_rounds([[first], [second]])
    first = first.replace(b"\n", b"\r\n")
    second = second.replace(b"\n", b"\r")
    assert {over_rounds([pieces, [second]]) for pieces in splits(first)} == {whole}
    assert {over_rounds([[first], pieces]) for pieces in splits(second)} == {whole}


def test_texts_that_pass_as_they_came_are_of_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [
        START,
        *THINKING,
        *text(1, "One \U0001faa2"),
        *call_events(2, "ours", "{}"),
        *text(3, "two"),
        *end_events("tool_use"),
    ]
    outputs = []
    for quick in (True, False):
        if not quick:
            monkeypatch.setattr(AnthropicStream, "_pass_text", lambda self, data: False)
        stream = AnthropicStream({"theirs"})
        outputs.append((feed(stream, told), stream.request_messages))
    assert outputs[0] == outputs[1]
    (message,) = outputs[0][1]
    assert [block.get("text") for block in json.loads(message)["content"]] == [None, "One \U0001faa2", None, "two"]


def test_events_without_a_call_of_the_gateway_pass_byte_for_byte() -> None:
    stream = AnthropicStream({"theirs"})
    stream.feed(json.dumps(START).encode())
    for data in (
        b'{"type": "content_block_start",  "index": 0, "content_block": {"type": "text", "text": ""}}',
        b'{"index":0, "type":"content_block_delta", "delta": {"type": "text_delta", "text": "x", "z": 1.0}}',
    ):
        assert stream.feed(data).partition(b"\ndata: ")[2] == data + b"\n\n"


def test_indices_have_no_gap_at_a_call_of_the_gateway() -> None:
    stream = AnthropicStream({"theirs"})
    out = feed(stream, [START, *text(0, "a"), *call_events(1, "ours", "{}"), *call_events(2, "theirs", "{}")])
    assert [each["index"] for each in out if each["type"] == "content_block_start"] == [0, 1]
    assert [block["name"] for block in stream.message["content"] if block["type"] == "tool_use"] == ["ours", "theirs"]
    assert not any("ours" in json.dumps(each) for each in out)


def test_a_later_round_continues_where_the_previous_round_ended() -> None:
    stream = AnthropicStream(set())
    feed(stream, [START, *text(0, "a"), *call_events(1, "ours", "{}"), *end_events("tool_use")])
    stream.end_round()
    stream.next_round()
    out = feed(stream, [START, {"type": "ping"}, *THINKING, *text(1, "b"), *end_events("end_turn")])
    assert out[0]["type"] == "ping"
    assert [each["index"] for each in out if each["type"] == "content_block_stop"] == [1, 2]
    stream.end_round()
    last = events_of(stream.finish({"fairlead": {"rounds": 2}}))
    assert [each["type"] for each in last] == ["message_delta", "message_stop"]
    assert last[0]["delta"]["stop_reason"] == "end_turn"
    assert last[0]["fairlead"] == {"rounds": 2}
    assert last[0]["usage"] == {
        "input_tokens": 18,
        "output_tokens": 24,
        "cache_read_input_tokens": 6,
        "service_tier": "standard",
    }


DELTAS: list[Any] = [
    {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 1}},
    {"type": "message_delta", "delta": {"stop_reason": "stop_sequence", "stop_sequence": "x"}, "usage": {}},
    {"type": "message_delta", "delta": {"stop_reason": None, "stop_sequence": None}, "usage": {"output_tokens": 2}},
    {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 3}},
]
"""A `message_delta` with a stop reason between others with only usage: a message may have several."""


@pytest.mark.parametrize("client_tools", [None, {"theirs"}])
def test_a_message_delta_with_only_usage_keeps_the_stop_reason(client_tools: set[str] | None) -> None:
    stream = AnthropicStream(client_tools)
    out = feed(stream, [START, *text(0, "a"), *DELTAS, {"type": "message_stop"}])
    assert (stream.ended, stream.stop_reason) == (True, "stop_sequence")
    stream.end_round()
    last = [each for each in out + events_of(stream.finish({})) if each["type"] == "message_delta"][-1]
    assert last["usage"] == {"output_tokens": 3}
    assert client_tools is None or last["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "x"}


def test_a_translated_stream_has_the_stop_reason_of_any_message_delta() -> None:
    reader = AnthropicEventReader(TranslationLosses())
    for delta in DELTAS:
        assert list(reader.events(delta)) == []
    assert (reader.stop, reader.sequence) == (read_stop("stop_sequence"), "x")


def test_signatures_of_later_rounds_are_marked_for_the_client_and_not_for_the_provider() -> None:
    stream = AnthropicStream(set())
    first = feed(stream, [START, *THINKING, *call_events(1, "ours", "{}"), *end_events("tool_use")])
    assert first[3]["delta"]["signature"] == "Sig+/="
    stream.next_round()
    redacted = {"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": "D"}}
    out = feed(stream, [START, *THINKING, redacted, *end_events("end_turn")])
    assert out[2]["delta"]["signature"] == f"fairlead.2.{stream.mark}.Sig+/="
    assert out[4]["content_block"]["data"] == f"fairlead.2.{stream.mark}.D"
    assert stream.turn_key is not None
    assert stream.turn_key.id == stream.mark
    message = json.loads(stream.request_messages[0])["content"]
    assert message == [
        {"type": "thinking", "thinking": "Hm.", "signature": "Sig+/="},
        {"type": "redacted_thinking", "data": "D"},
    ]


def test_input_that_is_not_json_makes_the_call_invalid_and_stands_where_the_api_takes_it() -> None:
    stream = AnthropicStream(set())
    feed(stream, [START, *call_events(0, "ours", '{"q": '), *end_events("tool_use")])
    assert stream.message["content"][0]["input"] == '{"q": '
    assert json.loads(stream.request_messages[0])["content"][0]["input"] == {"INVALID_JSON": '{"q": '}


def test_input_of_a_call_stays_as_the_model_wrote_it() -> None:
    stream = AnthropicStream(set())
    feed(stream, [START, *call_events(0, "ours", '{"b": 1.0, ', '"a": 12345678901234567890}'), *end_events("tool_use")])
    assert b'"input":{"b": 1.0, "a": 12345678901234567890}' in stream.request_messages[0]


def test_a_call_without_an_id_gets_one_everywhere() -> None:
    stream = AnthropicStream({"theirs"})
    out = feed(stream, [START, *call_events(0, "theirs", "{}", id=""), *end_events("tool_use")])
    ident = out[1]["content_block"]["id"]
    assert ident.startswith("toolu_")
    assert json.loads(stream.request_messages[0])["content"][0]["id"] == ident


def test_the_second_of_two_calls_with_one_id_gets_another_everywhere() -> None:
    stream = AnthropicStream({"theirs"})
    events = [*call_events(0, "theirs", "{}", id="toolu_a"), *call_events(1, "theirs", "{}", id="toolu_a")]
    out = feed(stream, [START, *events, *end_events("tool_use")])
    answered_ids = [event["content_block"]["id"] for event in out if event["type"] == "content_block_start"]
    assert answered_ids[0] == "toolu_a" != answered_ids[1]
    assert [block["id"] for block in json.loads(stream.request_messages[0])["content"]] == answered_ids


def test_empty_texts_are_left_out_of_the_next_request() -> None:
    stream = AnthropicStream(set())
    feed(stream, [START, *text(0), *call_events(1, "ours"), *end_events("tool_use")])
    assert [block["type"] for block in json.loads(stream.request_messages[0])["content"]] == ["tool_use"]


def test_half_a_surrogate_pair_breaks_no_stream() -> None:
    stream = AnthropicStream(set())
    feed(stream, [START, text(0)[0]])
    for half in ("\\ud83e", "\\udea2", "\\ud83e\\udea2"):
        begin = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"'
        stream.feed(begin + half.encode() + b'"}}')
    assert stream.message["content"][0]["text"] == "\ufffd\ufffd\U0001faa2"


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense",
        b"[]",
        b"\xff",
        b'{"type": "content_block_start", "index": 0}',
        b'{"type": "content_block_start", "content_block": {"type": "text"}}',
        b'{"type": "message_delta"}',
        b'{"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta", "text": "x"}}',
        b'{"type": "message_start", "message": 1}',
        b'{"type": 1}',
        b'{"type": "ping\\n\\ndata: forged"}',
    ],
)
def test_data_that_is_not_an_event_is_a_bad_stream(data: bytes) -> None:
    with pytest.raises(BadStream):
        AnthropicStream(set()).feed(data)


def test_two_blocks_at_one_index_are_refused() -> None:
    stream = AnthropicStream(set())
    with pytest.raises(BadStream, match="index is missing or in use: 0"):
        feed(stream, [START, *text(0, "a"), *text(0, "b")])


def test_a_block_before_the_start_event_is_refused() -> None:
    with pytest.raises(BadStream, match="before `message_start`"):
        feed(AnthropicStream(set()), text(0, "a"))


def test_a_keep_alive_is_an_event_that_clients_count() -> None:
    assert AnthropicStream(set()).keep_alive() == b'event: ping\ndata: {"type": "ping"}\n\n'


def test_an_error_of_the_provider_keeps_its_text() -> None:
    with pytest.raises(BadStream) as raised:
        AnthropicStream(set()).feed(
            b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}'
        )
    assert json.loads(raised.value.error or b"")["type"] == "overloaded_error"


def test_an_answer_without_a_reason_to_stop_has_not_ended() -> None:
    stream = AnthropicStream(set())
    feed(stream, [START, *text(0, "a"), {"type": "message_stop"}])
    assert not stream.ended


def test_requests_without_injected_tools_pass_as_they_are() -> None:
    stream = AnthropicStream(None)
    events = [START, *call_events(0, "anything", "{}"), *end_events("tool_use")]
    assert feed(stream, events) == events
    assert stream.ended
    stream.end_round()
    assert stream.usage["output_tokens"] == 12
    assert stream.finish({"fairlead": {}}) == b""
