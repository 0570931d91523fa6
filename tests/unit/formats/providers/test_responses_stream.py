"""Events of several answers are merged into one response, however the bytes of a stream are split."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from fairlead_formats.providers.openai_responses.fake import ResponsesApi
from fairlead_formats.providers.openai_responses.request import ResponsesRequest
from fairlead_formats.providers.openai_responses.stream import MAX_ROUND, ResponsesStream
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.protocol import BadStream
from fairlead_mcp.sse import EventParser
from transcripts import without_marks

REQUEST = {"model": "m", "input": "Hi", "tools": [{"type": "function", "name": "theirs"}]}
GATEWAY_CALL = ScriptedCall("demo__add", {"a": 2})
CLIENT_CALL = ScriptedCall("theirs", {"q": "ä"})
TURNS = (
    ScriptedTurn("Grüße, 世界 \u2028 🪢", [GATEWAY_CALL], thoughts=["hm"]),
    ScriptedTurn("So.", [GATEWAY_CALL, CLIENT_CALL], thoughts=["ä"], items=[{"type": "web_search_call", "id": "ws_1"}]),
)


def bodies(*turns: ScriptedTurn) -> list[bytes]:
    """Bytes of a scripted provider's streams, one per round."""
    api = ResponsesApi()
    return [
        "".join(map(api.stream_event, api.events(turn, number, REQUEST))).encode()
        for number, turn in enumerate(turns, 1)
    ]


def new(theirs: Sequence[str] | None = ("theirs",), **members: Any) -> ResponsesStream:
    return ResponsesStream(ResponsesRequest(json.dumps({**REQUEST, **members}).encode()), theirs)


def run(stream: ResponsesStream, rounds: Sequence[Sequence[bytes]]) -> bytes:
    """The bytes that the client gets for these rounds, each of which arrives in chunks."""
    out = b""
    for index, chunks in enumerate(rounds):
        if index:
            stream.next_round()
        parser = EventParser()
        out += b"".join(stream.feed(event.data) for chunk in chunks for event in parser.feed(chunk))
        assert stream.ended
        out += stream.end_round()
    return out + stream.finish({"fairlead": {}})


def events_of(out: bytes) -> list[dict[str, Any]]:
    return [json.loads(event.data) for event in EventParser().feed(out)]


def same(out: bytes) -> str:
    """Events without ids that differ between runs."""
    events = events_of(out)
    return without_marks(json.dumps(events)).replace(events[0]["response"]["id"], "ID")


def test_a_stream_may_be_cut_anywhere() -> None:
    whole = bodies(*TURNS)
    expected = same(run(new(), [[body] for body in whole]))
    assert same(run(new(), [[body[index : index + 1] for index in range(len(body))] for body in whole])) == expected
    (body,) = bodies(TURNS[1])
    expected = same(run(new(), [[body]]))
    for index in range(len(body)):
        assert same(run(new(), [[body[:index], body[index:]]])) == expected


def test_an_event_that_needs_no_change_passes_byte_for_byte() -> None:
    stream = new()
    data = b'{"type":"response.x",  "sequence_number":0, "z": 1.0, "a": 12345678901234567890123}'
    assert stream.feed(data) == b"event: response.x\ndata: " + data + b"\n\n"


def test_calls_that_are_run_here_leave_no_gap() -> None:
    out = events_of(run(new(), [[body] for body in bodies(*TURNS)]))
    places = [event["output_index"] for event in out if event["type"] == "response.output_item.added"]
    assert places == [*range(6)]
    assert [event["sequence_number"] for event in out] == [*range(len(out))]
    assert "demo__add" not in json.dumps(out)


def test_a_stream_is_unchanged_if_the_gateway_runs_no_call() -> None:
    (body,) = bodies(TURNS[1])
    out = events_of(run(new(None), [[body]]))
    sent = [json.loads(event.data) for event in EventParser().feed(body)]
    made = out[0]["response"]["id"]
    assert json.loads(json.dumps(out).replace(made, "resp_scripted_0001")) == sent


def test_a_call_whose_name_comes_last_is_buffered_until_then() -> None:
    stream = new()
    call = {"type": "function_call", "id": "fc", "call_id": "c", "name": "", "arguments": "", "status": "in_progress"}
    out = stream.feed(json.dumps({"type": "response.output_item.added", "output_index": 0, "item": call}).encode())
    delta = {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc", "delta": "{}"}
    out += stream.feed(json.dumps(delta).encode())
    assert not out
    done = {"type": "response.output_item.done", "output_index": 0, "item": {**call, "name": "theirs"}}
    types = [event["type"] for event in events_of(stream.feed(json.dumps(done).encode()))]
    assert types == ["response.output_item.added", delta["type"], "response.output_item.done"]


@pytest.mark.parametrize(
    "data",
    [
        b"nothing",
        b"[1]",
        b'{"type":"response.output_item.added","output_index":"x"}',
        b"[" * 20_000,
        b"\xff",
        b'{"type":"response.created","response":[]}',
        b'{"type":"response.completed","response":{"output":{}}}',
    ],
)
def test_data_that_is_not_an_event_is_a_bad_stream(data: bytes) -> None:
    with pytest.raises(BadStream):
        new().feed(data)


def test_an_error_of_the_provider_is_one_that_clients_raise() -> None:
    for data in (b'{"type":"error","code":"x","message":"gone","sequence_number":3}', b'{"error":{"message":"gone"}}'):
        stream = new()
        with pytest.raises(BadStream) as caught:
            stream.feed(data)
        (event,) = events_of(stream.write_error(LlmError(502, "broken", "bad_answer"), caught.value.error))
        assert (event["type"], event["error"]["message"]) == ("error", "gone")


def test_a_round_is_bounded() -> None:
    stream = new()
    data = b'{"type":"response.x","z":"' + b"x" * (1 << 20) + b'"}'
    for _ in range((MAX_ROUND >> 20) - 1):
        stream.feed(data)
    with pytest.raises(BadStream, match="longer"):
        stream.feed(data)


def test_half_a_surrogate_pair_is_replaced() -> None:
    out = new().feed(b'{"type":"response.x","sequence_number":7,"z":"\\ud83e"}')
    assert events_of(out)[0]["z"] == "\ufffd"


def test_a_name_of_an_event_cannot_write_lines_of_its_own() -> None:
    out = new().feed(json.dumps({"type": "x\n\ndata: {}", "sequence_number": 0}).encode())
    assert len(events_of(out)) == 1
