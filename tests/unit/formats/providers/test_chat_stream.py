"""Chunks of several rounds are merged into one stream."""

from __future__ import annotations

import collections
import json
from typing import Any

import msgspec
import pytest

from fairlead_formats.messages.call import MAX_CALLS
from fairlead_formats.messages.streams import MAX_PARSE_ATTEMPTS
from fairlead_formats.providers.openai_chat.stream import ChatStream
from fairlead_formats.wire.protocol import BadStream


def chunk(delta: dict[str, Any], reason: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return json.dumps({"id": "a", "object": "chat.completion.chunk", "choices": [choice], **more}).encode()


def call(name: str | None, arguments: str | None, *, index: int | None = 0, ident: str | None = None) -> dict[str, Any]:
    entry: dict[str, Any] = {"function": {"name": name, "arguments": arguments}, "type": "function"}
    if index is not None:
        entry["index"] = index
    if ident is not None:
        entry["id"] = ident
    return {"tool_calls": [entry]}


def events_of(out: bytes) -> list[Any]:
    return [json.loads(line[6:]) for line in out.decode().split("\n") if line.startswith("data: {")]


def calls_in(out: bytes) -> list[Any]:
    return [entry for each in events_of(out) for entry in each["choices"][0]["delta"].get("tool_calls", [])]


def test_data_without_a_call_passes_byte_for_byte() -> None:
    stream = ChatStream({"theirs"}, include_usage=True)
    data = b'{"id": "a",  "choices": [{"delta": {"content": "x"}, "index": 0}]}'
    assert stream.feed(data) == b"data: " + data + b"\n\n"


def test_calls_with_the_same_index_are_distinguished_by_their_ids() -> None:
    stream = ChatStream({"one", "two"}, include_usage=True)
    out = stream.feed(chunk(call("one", "{}", ident="a"))) + stream.feed(chunk(call("two", "{}", ident="b")))
    out += stream.end_round()
    assert [(entry["index"], entry["id"]) for entry in calls_in(out)] == [(0, "a"), (1, "b")]


def entries(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": [entry for each in calls for entry in each["tool_calls"]]}


@pytest.mark.parametrize("index", [0, None])
@pytest.mark.parametrize("ident", [None, "", "same"], ids=["no id", "an empty id", "one id"])
@pytest.mark.parametrize("together", [False, True], ids=["piece by piece", "in one piece"])
@pytest.mark.parametrize("first", ["{}", '{"a":"}"}'])
def test_calls_that_differ_only_in_their_names_are_two(
    index: int | None, ident: str | None, together: bool, first: str
) -> None:
    stream = ChatStream({"fine", "go"}, include_usage=True)
    made = [call("fine", first, index=index, ident=ident), call("go", '{"p":2}', index=index, ident=ident)]
    out = b"".join(stream.feed(chunk(each)) for each in ([entries(*made)] if together else made))
    out += stream.end_round()
    whole = stream.message["tool_calls"]
    assert [tuple(each["function"].values()) for each in whole] == [("fine", first), ("go", '{"p":2}')]
    assert len({each["id"] for each in whole}) == 2
    assert all(each["id"] for each in whole)
    assert [entry["id"] for entry in calls_in(out)] == [each["id"] for each in whole]


def test_calls_in_one_piece_are_two_although_their_arguments_come_later() -> None:
    stream = ChatStream({"fine", "go"}, include_usage=True)
    stream.feed(chunk(entries(call("fine", "", index=None), call("go", "", index=None))))
    stream.feed(chunk(call(None, "{}", index=None)))
    stream.end_round()
    assert [made["function"]["name"] for made in stream.message["tool_calls"]] == ["fine", "go"]


def test_equal_calls_without_ids_are_two() -> None:
    stream = ChatStream(set(), include_usage=True)
    for _ in range(2):
        stream.feed(chunk(call("fine", "{}")))
    assert len(stream.message["tool_calls"]) == 2


@pytest.mark.parametrize("ident", [None, "a"])
@pytest.mark.parametrize("last", ["", None, " "])
def test_a_name_without_arguments_after_complete_arguments_begins_no_call(ident: str | None, last: str | None) -> None:
    stream = ChatStream({"fine"}, include_usage=True)
    for piece in ('{"a":', "1}", last):
        stream.feed(chunk(call("fine", piece, ident=ident)))
    (made,) = stream.message["tool_calls"]
    assert made["function"]["arguments"].strip() == '{"a":1}'


def test_a_call_that_is_repeated_under_its_id_is_one() -> None:
    stream = ChatStream({"go"}, include_usage=True)
    for _ in range(2):
        stream.feed(chunk(call("go", '{"p":2}', ident="a")))
    (made,) = stream.message["tool_calls"]
    assert made["function"]["arguments"] == '{"p":2}'


def test_a_server_that_repeats_a_name_with_each_piece_takes_no_time_without_bound() -> None:
    stream = ChatStream(set(), include_usage=True)
    looked: list[int] = []
    for number in range(200):
        stream.feed(chunk(call("go", '{"a":"' if number == 0 else "}")))
        looked.append(stream._calls[-1].parse_attempts)
    assert len(stream.message["tool_calls"]) == 1
    assert max(looked) == MAX_PARSE_ATTEMPTS


def test_calls_without_an_index_are_one_after_the_other() -> None:
    stream = ChatStream({"one", "two"}, include_usage=True)
    for name in ("one", "two"):
        stream.feed(chunk(call(name, '{"a":', index=None, ident=name)))
        stream.feed(chunk(call(None, "1}", index=None)))
    stream.end_round()
    assert [made["function"]["arguments"] for made in stream.message["tool_calls"]] == ['{"a":1}', '{"a":1}']


def test_a_name_that_comes_in_pieces_is_whole_before_it_is_decided_whose_it_is() -> None:
    stream = ChatStream({"theirs_long"}, include_usage=True)
    out = stream.feed(chunk(call("theirs", None, ident="a"))) + stream.feed(chunk(call("_long", None)))
    assert calls_in(out) == []
    out = stream.feed(chunk(call(None, "{}")))
    assert calls_in(out)[0]["function"] == {"name": "theirs_long", "arguments": "{}"}


def test_a_repeated_name_is_kept_once() -> None:
    stream = ChatStream({"theirs"}, include_usage=True)
    stream.feed(chunk(call("theirs", "", ident="a")))
    out = stream.feed(chunk(call("theirs", "{}", ident="a")))
    assert calls_in(out)[0]["function"]["name"] == "theirs"


def test_a_call_without_arguments_gets_an_empty_object() -> None:
    stream = ChatStream({"theirs"}, include_usage=True)
    stream.feed(chunk(call("theirs", "", ident="a")))
    stream.feed(chunk({}, "tool_calls"))
    assert calls_in(stream.end_round())[0]["function"]["arguments"] == "{}"
    assert stream.message["tool_calls"][0]["function"]["arguments"] == "{}"


def test_the_callers_calls_count_from_zero_whatever_stands_before_them() -> None:
    stream = ChatStream({"theirs"}, include_usage=True)
    out = stream.feed(chunk(call("ours", "{}", index=0, ident="a")))
    out += stream.feed(chunk(call("theirs", "{}", index=1, ident="b")))
    assert [(entry["index"], entry["id"]) for entry in calls_in(out)] == [(0, "b")]
    assert [made["id"] for made in stream.message["tool_calls"]] == ["a", "b"]


def test_a_later_round_has_the_ids_of_the_first_and_no_role() -> None:
    stream = ChatStream(set(), include_usage=True)
    stream.feed(chunk({"role": "assistant", "content": "One."}))
    stream.feed(chunk(call("ours", "{}", ident="a")))
    stream.feed(chunk({}, "tool_calls", usage={"total_tokens": 3}))
    stream.end_round()
    stream.next_round()
    data = json.loads(chunk({"role": "assistant", "content": "Two."})) | {"id": "b"}
    (event,) = events_of(stream.feed(json.dumps(data).encode()))
    assert event["id"] == "a"
    assert event["choices"][0]["delta"] == {"content": "\n\nTwo."}
    stream.feed(chunk({}, "stop", usage={"total_tokens": 4}))
    stream.end_round()
    last = events_of(stream.finish({}))
    assert last[0]["choices"][0]["finish_reason"] == "stop"
    assert last[1]["usage"] == {"total_tokens": 7}


@pytest.mark.parametrize("data", [b"nonsense", b"[]", b'{"choices": 1}', b'{"choices": [{"delta": []}]}', b"\xff"])
def test_data_that_is_not_a_chunk_is_a_bad_stream(data: bytes) -> None:
    with pytest.raises(BadStream):
        ChatStream(set(), include_usage=True).feed(data)


def test_an_error_of_the_provider_keeps_its_text() -> None:
    with pytest.raises(BadStream) as raised:
        ChatStream(set(), include_usage=True).feed(b'{"error": {"message": "gone", "code": 7}}')
    assert json.loads(raised.value.error or b"") == {"message": "gone", "code": 7}


def test_calls_beyond_the_bound_of_a_stream_are_refused() -> None:
    stream = ChatStream(set(), include_usage=True)
    for number in range(MAX_CALLS):
        stream.feed(chunk(call("ours", "{}", index=number, ident=str(number))))
    with pytest.raises(BadStream, match="more than"):
        stream.feed(chunk(call("ours", "{}", index=MAX_CALLS, ident="one more")))


def test_members_of_a_call_that_nobody_knows_stay() -> None:
    signed = call("theirs", "{}", ident="a")
    signed["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "abc"}}
    stream = ChatStream({"theirs"}, include_usage=True)
    out = stream.feed(chunk(signed))
    assert calls_in(out)[0]["extra_content"] == {"google": {"thought_signature": "abc"}}
    message = json.loads(msgspec.json.encode(stream.message))
    assert message["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "abc"}}


def test_details_of_reasoning_go_into_the_next_request() -> None:
    stream = ChatStream({"theirs"}, include_usage=True)
    for number in (1, 2):
        stream.feed(chunk({"reasoning_details": [{"text": str(number)}]}))
    assert stream.message["reasoning_details"] == [{"text": "1"}, {"text": "2"}]


def test_half_a_surrogate_pair_breaks_no_stream_and_a_whole_one_stays() -> None:
    stream = ChatStream(set(), include_usage=True)
    for text in ("\\ud83e", "\\udea2", "\\ud83e\\udea2", "\\\\ud83e"):
        stream.feed(b'{"id":"a","choices":[{"index":0,"delta":{"content":"%s"}}]}' % text.encode())
    assert stream.message["content"] == "\ufffd\ufffd\U0001faa2\\ud83e"


def test_a_new_id_without_a_name_is_not_a_new_call() -> None:
    stream = ChatStream({"theirs"}, include_usage=True)
    stream.feed(chunk(call("theirs", '{"a"', ident="a")))
    stream.feed(chunk(call(None, ":1}", ident="b")))
    assert [made["function"]["arguments"] for made in stream.message["tool_calls"]] == ['{"a":1}']


def test_data_of_several_lines_stay_one_event() -> None:
    out = ChatStream({"theirs"}, include_usage=True).feed(
        b'{"id":"a",\n"choices":[{"index":0,"delta":{"content":"x"}}]}'
    )
    assert out == b'data: {"id":"a",\ndata: "choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'


def test_texts_of_all_kinds_of_chunks_stand_in_the_message_of_the_next_request() -> None:
    stream = ChatStream({"theirs"}, include_usage=True)
    texts = ["He said ", '"tool_calls": [{', "\\", " and {} went", " on", "."]
    for index, text in enumerate(texts):
        delta = {"content": text, **({"role": "assistant"} if index == 0 else {}), **({"x": 1} if index == 3 else {})}
        data = chunk(delta, **({"usage": None} if index == 4 else {}))
        assert stream.feed(data) == b"data: " + data + b"\n\n"
    stream.feed(chunk(call("ours", "{}", ident="a")))
    stream.end_round()
    assert stream.message["content"] == "".join(texts)
    assert stream.message["tool_calls"][0]["function"]["name"] == "ours"


def test_data_that_is_not_a_chunk_is_an_error_behind_chunks_of_text_too() -> None:
    for wrong in (b'{"choices": [{"delta": {"content": "x"}, "finish_reason": null', b"\xff", b'{"choices": 3}'):
        stream = ChatStream({"theirs"}, include_usage=True)
        stream.feed(chunk({"content": "x"}))
        with pytest.raises(BadStream):
            stream.feed(wrong)


def test_an_error_of_the_provider_between_chunks_of_text_ends_the_stream() -> None:
    stream = ChatStream({"theirs"}, include_usage=True)
    stream.feed(chunk({"content": "x"}))
    with pytest.raises(BadStream) as broken:
        stream.feed(chunk({"content": "y"}, error={"message": "overloaded"}))
    assert json.loads(broken.value.error or b"") == {"message": "overloaded"}


def test_arguments_in_the_form_of_an_empty_object_stay_one() -> None:
    stream = ChatStream({"theirs"}, include_usage=True)
    entry = {"index": 0, "id": "a", "type": "function", "function": {"name": "theirs", "arguments": {}}}
    out = stream.feed(chunk({"tool_calls": [entry]})) + stream.end_round()
    assert "".join(each["function"]["arguments"] for each in calls_in(out)) == "{}"


def test_an_end_without_a_reason_is_not_passed_on() -> None:
    stream = ChatStream(None, include_usage=True)
    stream.feed(chunk({"content": "Half"}))
    assert (stream.feed(b"[DONE]"), stream.ended) == (b"", False)


def test_an_end_with_a_reason_passes_where_nothing_is_run_here() -> None:
    stream = ChatStream(None, include_usage=True)
    stream.feed(chunk({}, "stop"))
    assert stream.feed(b"[DONE]") == b"data: [DONE]\n\n"


def test_a_name_without_end_is_an_error() -> None:
    stream = ChatStream({"theirs"}, include_usage=True)
    pieces = (chunk(call(f"name_{number:04}", "")) for number in range(200))
    with pytest.raises(BadStream, match="over 1024 characters"):
        collections.deque(map(stream.feed, pieces), maxlen=0)
