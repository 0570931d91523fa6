"""Event streams by the rules of WHATWG, and as MCP servers write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_mcp.errors import TooLarge
from fairlead_mcp.sse import EventParser, only_message
from fairlead_mcp.sse_event import SseEvent


def parse(*chunks: bytes) -> list[SseEvent]:
    parser = EventParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


@pytest.mark.parametrize(
    ("stream", "data"),
    [
        (b"data: a\n\n", [b"a"]),
        (b"data:a\r\n\r\n", [b"a"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: a\ndata:  b\ndata\n\n", [b"a\n b\n"]),
        (b": keep-alive\n\ndata: a\n\n", [b"a"]),
        (b"id: 1\ndata: \n\ndata: a\n\n", [b"a"]),
        (b"retry: 5\nunknown: x\ndata: a\n\n", [b"a"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"data: a", []),
        (b"data: a\n", []),
        (b"\n\n\n", []),
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
    ],
)
def test_an_event_is_what_the_rules_say(stream: bytes, data: list[bytes]) -> None:
    assert [event.data for event in parse(stream)] == data
    assert [event.data for event in parse(*(bytes([byte]) for byte in stream))] == data


def test_name_and_id_belong_to_one_event() -> None:
    first, second = parse(b"event: ping\nid: 7\ndata: a\n\ndata: b\n\n")
    assert first == SseEvent(b"a", b"ping", b"7")
    assert second == SseEvent(b"b", b"message", None)


@given(st.lists(st.sampled_from([b"\r", b"\n", b"\r\n", b"data: a", b"data", b":c", b"id: 1"])), st.data())
def test_the_cuts_of_an_event_stream_make_no_difference(tokens: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(tokens)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert parse(*chunks) == parse(stream)


@pytest.mark.parametrize("chunk", [b"data: 123456789\n", b"data: 123456789"])
def test_an_event_beyond_the_bound_is_refused_also_without_a_line_end(chunk: bytes) -> None:
    parser = EventParser(max_event=40)
    for _ in range(2):
        parser.feed(chunk)
    with pytest.raises(TooLarge):
        parser.feed(chunk)


def test_the_bound_is_per_event_and_not_for_the_stream() -> None:
    parser = EventParser(max_event=20)
    assert sum(len(parser.feed(b"data: 123456789\n\n")) for _ in range(100)) == 100


@pytest.mark.parametrize(
    ("stream", "last_id", "retry"),
    [
        (b"id: 1\nretry: 500\ndata: \n\n", b"1", 500),
        (b"id: 1\ndata: a\n\ndata: b\n\n", b"1", None),
        (b"id: 1\ndata: a\n\nid: 2\ndata: b\n", b"1", None),
        (b"id: 1\n\nid\n\n", b"", None),
        (b"retry: soon\nretry: -1\n\n", None, None),
    ],
    ids=["priming event", "an event without one", "an event that is not over", "taken back", "no number"],
)
def test_a_stream_says_where_to_go_on_and_when(stream: bytes, last_id: bytes | None, retry: int | None) -> None:
    parser = EventParser()
    parser.feed(stream)
    assert (parser.last_id, parser.retry) == (last_id, retry)


@pytest.mark.parametrize(
    "stream",
    [
        b"data: a\n\n",
        b"event: message\ndata: a\n\n",
        b"event: message\r\ndata: a\r\n\r\n",
        b"data: a\r\n\r\n",
    ],
)
def test_the_plain_form_of_one_message_is_read_at_once(stream: bytes) -> None:
    assert only_message(stream) == b"a"
    assert [event.data for event in parse(stream, stream)] == [b"a", b"a"]


@given(
    st.lists(
        st.sampled_from(
            [
                b"event: message",
                b"event: x",
                b"data: a",
                b"data: ",
                b"id: 1",
                b"\n",
                b"\r\n",
                b"\r",
                b"b",
                b"event: message\ndata: ",
                b"event: message\r\ndata: ",
                b"\n\n",
                b"\r\n\r\n",
            ]
        ),
        max_size=8,
    ).map(b"".join)
)
def test_an_event_read_at_once_is_what_the_whatwg_rules_say(stream: bytes) -> None:
    message = only_message(stream)
    if message is not None:
        by_the_rules = parse(*(bytes([byte]) for byte in stream))
        assert by_the_rules == ([SseEvent(message)] if message else [])


@given(st.lists(st.sampled_from([b"event: message\n", b"data: a", b"id: 1\n", b"\n", b"\r\n", b"\r"]), max_size=12))
def test_events_do_not_depend_on_how_the_stream_is_cut(pieces: list[bytes]) -> None:
    assert parse(*pieces) == parse(*(bytes([byte]) for byte in b"".join(pieces)))
