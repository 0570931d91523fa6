"""Responses of several rounds are merged into one stream of Gemini's API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_formats.messages.call import MAX_CALLS
from fairlead_formats.providers.gemini.fake import GeminiApi
from fairlead_formats.providers.gemini.stream import MAX_ROUND, GeminiStream
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.protocol import BadStream
from transcripts import splits, stream_bytes


def response(*parts: dict[str, Any], reason: str | None = None, **more: Any) -> bytes:
    candidate = {"content": {"parts": [*parts], "role": "model"}, "index": 0}
    if reason is not None:
        candidate["finishReason"] = reason
    return json.dumps({"candidates": [candidate], "responseId": "r1", **more}).encode()


def call(name: str = "theirs", ident: str = "c1", **more: Any) -> dict[str, Any]:
    return {"functionCall": {"id": ident, "name": name, "args": {}}, **more}


def events_of(out: bytes) -> list[Any]:
    return [json.loads(line.removeprefix("data: ")) for line in out.decode().split("\n") if line]


def test_data_without_a_call_passes_byte_for_byte() -> None:
    data = b'{"candidates":  [{"content": {"parts": [{"text": "x", "odd": 1.0}]}}], "z": 12345678901234567890123}'
    assert GeminiStream({"theirs"}).feed(data) == b"data: " + data + b"\n\n"


def test_texts_that_pass_as_they_came_are_of_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    usage: list[dict[str, Any]] = [{"usageMetadata": {"totalTokenCount": n}} for n in (1, 2, 3)]
    data = [
        response({"text": "On"}, **usage[0]),
        response({"text": "e "}, **usage[1]),
        response({"text": "t"}, **usage[2]),
        response({"text": "Hm.", "thought": True}),
        response({"text": "wo"}),
        response({"text": "\U0001faa2\u2028"}),
        response(call("ours"), reason="STOP"),
    ]
    outputs = []
    for quick in (True, False):
        if not quick:
            monkeypatch.setattr(GeminiStream, "_pass_text", lambda self, data: False)
        stream = GeminiStream({"theirs"})
        out = b"".join(map(stream.feed, data)) + stream.end_round()
        outputs.append((out, stream.request_messages, stream.usage))
    assert outputs[0] == outputs[1]
    (content,) = outputs[0][1]
    assert [part.get("text") for part in json.loads(content)["parts"]] == ["One t", "Hm.", "wo\U0001faa2\u2028", None]
    assert outputs[0][2] == {"totalTokenCount": 3}


def test_no_line_of_a_stream_ends_where_only_some_clients_see_an_end() -> None:
    out = GeminiStream(set()).feed(
        '{"candidates": [\n{"content": {"parts": [{"text": "a\u2028b\u2029c\u0085d"}]}}]}'.encode()
    )
    assert out.isascii()
    assert len(out.splitlines()) == 2
    assert events_of(out)[0]["candidates"][0]["content"]["parts"] == [{"text": "a\u2028b\u2029c\u0085d"}]


def test_every_split_of_a_stream_gives_the_same_bytes() -> None:
    api = GeminiApi()
    turns = [
        ScriptedTurn("Grüße, 世", [ScriptedCall("ours", {"a": "🪢"})], thoughts=["Hm."]),
        ScriptedTurn("界 🪢", [ScriptedCall("theirs", {"q": 1})]),
    ]
    bodies = [
        "".join(
            api.stream_event(json.dumps(json.loads(event), ensure_ascii=False))
            for event in api.events(turn, number, {})
        ).encode()
        for number, turn in enumerate(turns, 1)
    ]
    whole = stream_bytes(GeminiStream({"theirs"}), [[body] for body in bodies])
    texts = [part for each in events_of(whole) for part in each["candidates"][0]["content"]["parts"] if "text" in part]
    assert "".join(part["text"] for part in texts if not part.get("thought")) == "Grüße, 世\n\n界 🪢"
    for index, body in enumerate(bodies):
        for pieces in splits(body):
            rounds = [[each] for each in bodies]
            rounds[index] = pieces
            assert stream_bytes(GeminiStream({"theirs"}), rounds) == whole


def test_parts_of_a_round_are_one_content_in_the_next_request() -> None:
    stream = GeminiStream({"theirs"})
    stream.feed(response({"text": "Hm", "thought": True}))
    stream.feed(response({"text": ".", "thought": True}, {"text": "So"}))
    stream.feed(response({"text": ", then."}, {"text": "", "thoughtSignature": "cw=="}))
    stream.feed(response(call("ours", thoughtSignature="cw=="), call("theirs", "c2"), reason="STOP"))
    stream.end_round()
    assert json.loads(stream.request_messages[0]) == {
        "role": "model",
        "parts": [
            {"text": "Hm.", "thought": True},
            {"text": "So, then."},
            {"text": "", "thoughtSignature": "cw=="},
            call("ours", thoughtSignature="cw=="),
            call("theirs", "c2"),
        ],
    }


def test_the_end_of_a_round_is_sent_when_it_is_the_end_of_the_answer() -> None:
    stream = GeminiStream({"theirs"})
    assert (
        stream.feed(response({"text": "One."}, call("ours"), reason="STOP", usageMetadata={"totalTokenCount": 3}))
        == b""
    )
    (flowed,) = events_of(stream.end_round())
    assert flowed["candidates"] == [{"content": {"parts": [{"text": "One."}], "role": "model"}, "index": 0}]
    stream.next_round()
    (event,) = events_of(stream.feed(response({"text": "Two."}, responseId="r2", usageMetadata={"totalTokenCount": 2})))
    assert event["responseId"] == "r1"
    assert event["usageMetadata"] == {"totalTokenCount": 5}
    assert [part["text"] for part in event["candidates"][0]["content"]["parts"]] == ["\n\n", "Two."]
    stream.feed(response(reason="STOP", responseId="r2", usageMetadata={"totalTokenCount": 4}))
    assert stream.end_round() == b""
    (last,) = events_of(stream.finish({"fairlead": {}}))
    assert last["candidates"][0]["finishReason"] == "STOP"
    assert (last["usageMetadata"], last["fairlead"], last["responseId"]) == ({"totalTokenCount": 7}, {}, "r1")


def test_data_after_the_end_of_a_round_is_buffered_and_sent_at_the_end() -> None:
    stream = GeminiStream({"theirs"})
    stream.feed(response({"text": "Hi"}, reason="STOP"))
    stream.feed(b'{"usageMetadata": {"totalTokenCount": 3}, "responseId": "r1"}')
    stream.end_round()
    first, last = events_of(stream.finish({"fairlead": {}}))
    assert first["candidates"][0]["finishReason"] == "STOP"
    assert "fairlead" not in first
    assert last == {"usageMetadata": {"totalTokenCount": 3}, "responseId": "r1", "fairlead": {}}


def test_a_stream_in_which_nothing_is_run_passes_and_is_closed() -> None:
    stream = GeminiStream(None, array=True)
    pieces = [response(call("any")), response({"text": "x"}, reason="STOP")]
    out = b"".join(map(stream.feed, pieces)) + stream.end_round() + stream.finish({"fairlead": {}})
    assert out == b"[" + pieces[0] + b",\n" + pieces[1] + b"\n]"


def test_an_array_of_gemini_stays_an_array_whatever_happens() -> None:
    error = LlmError(504, "late", "timeout")
    stream = GeminiStream(set(), array=True)
    assert json.loads(stream.keep_alive() + stream.write_error(error))[0]["error"]["status"] == "DEADLINE_EXCEEDED"
    stream = GeminiStream(set(), array=True)
    out = stream.keep_alive() + stream.feed(response({"text": "x"})) + stream.keep_alive() + stream.write_error(error)
    assert [next(iter(each)) for each in json.loads(out)] == ["candidates", "error"]


def test_silence_is_broken_by_empty_lines_alone() -> None:
    assert GeminiStream(set()).keep_alive() == b"\n"


@pytest.mark.parametrize(
    "data", [b"nonsense", b"[]", b'{"candidates": [1]}', b"\xff", b'{"candidates": [{"content": {"parts": [}']
)
def test_data_that_is_not_a_response_is_a_bad_stream(data: bytes) -> None:
    with pytest.raises(BadStream):
        GeminiStream(set()).feed(data)


@pytest.mark.parametrize(
    "data", [b'{"error": {"code": 503, "message": "m"}}', b'[{"error": {"code": 503, "message": "m"}}]']
)
def test_an_error_of_the_provider_keeps_its_text(data: bytes) -> None:
    with pytest.raises(BadStream) as raised:
        GeminiStream(set()).feed(data)
    assert json.loads(raised.value.error or b"") == {"code": 503, "message": "m"}
    out = GeminiStream(set()).write_error(LlmError(502, "x", "bad_answer"), raised.value.error)
    assert events_of(out) == [{"error": {"code": 503, "message": "m"}}]


def test_an_error_that_is_not_an_object_is_replaced_by_an_error_of_the_gateway() -> None:
    with pytest.raises(BadStream) as raised:
        GeminiStream(set()).feed(b'{"error": "gone"}')
    assert raised.value.error is None


def test_calls_and_text_beyond_the_bounds_of_a_stream_are_refused() -> None:
    stream = GeminiStream(set())
    with pytest.raises(BadStream, match="calls"):
        stream.feed(response(*[call("ours")] * (MAX_CALLS + 1)))
    stream = GeminiStream(set())
    large = response({"text": "x" * (MAX_ROUND // 2)})
    stream.feed(large)
    with pytest.raises(BadStream, match="longer"):
        stream.feed(large)


def test_half_a_surrogate_pair_breaks_no_stream() -> None:
    stream = GeminiStream(set())
    stream.feed(b'{"candidates":[{"content":{"parts":[{"text":"a\\ud83eb"}]}}]}')
    assert stream.message["parts"] == [{"text": "a\ufffdb"}]


def test_text_beside_a_call_that_nobody_can_read_is_the_answer() -> None:
    stream = GeminiStream(set())
    stream.feed(response({"text": "Well"}))
    stream.feed(response(reason="MALFORMED_FUNCTION_CALL"))
    assert not stream.malformed_call
    stream = GeminiStream(set())
    stream.feed(response({"text": "Hm", "thought": True}, reason="MALFORMED_FUNCTION_CALL"))
    assert stream.malformed_call
