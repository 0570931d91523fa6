"""One HTTP connection, byte by byte, with a transport that records and an owner that counts."""

from __future__ import annotations

import tracemalloc

import pytest

from fairlead_mcp.errors import BadHttp, ConnectionLost, TooLarge
from fairlead_mcp.http.connection import DRAIN_SECONDS, MAX_DRAIN_BYTES
from fairlead_mcp.http.heads import keep_alive_seconds
from oneconnection import World

OK = b"HTTP/1.1 200 OK\r\n"
JSON = OK + b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
STREAM = OK + b"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"


def split(data: bytes) -> list[bytes]:
    return [bytes([byte]) for byte in data]


@pytest.mark.parametrize("chunks", [[JSON], split(JSON), [JSON[:30], JSON[30:-1], JSON[-1:]]])
def test_an_answer_arrives_however_it_is_cut(chunks: list[bytes]) -> None:
    world = World().start(*chunks)
    assert (world.answer.status, world.answer.content_type, world.answer.body) == (200, b"application/json", b"{}")
    assert world.wire.written == b"request"
    assert world.ends() == (1, 0)


def test_only_the_headers_of_use_are_kept_whatever_their_spelling() -> None:
    world = World().start(
        OK + b"MCP-SESSION-ID: s\r\nServer: x\r\nretry-After: 3\r\nX-Y: z\r\nContent-Length: 0\r\n\r\n"
    )
    assert world.answer.headers == {b"mcp-session-id": b"s", b"retry-after": b"3", b"content-length": b"0"}


def test_challenges_of_several_lines_are_joined_by_commas() -> None:
    lines = b"WWW-Authenticate: Basic\r\nX-Y: z\r\nwww-authenticate: Bearer scope=a\r\n"
    world = World().start(
        b"HTTP/1.1 401 Unauthorized\r\n" + lines + b"Retry-After: 1\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n"
    )
    assert world.answer.headers[b"www-authenticate"] == b"Basic, Bearer scope=a"
    assert world.answer.headers[b"retry-after"] == b"2"


@pytest.mark.parametrize("status", [b"100 Continue", b"103 Early Hints", b"102 Processing"])
def test_interim_answers_are_not_the_answer(status: bytes) -> None:
    world = World().start(b"HTTP/1.1 " + status + b"\r\nLink: x\r\n\r\n")
    assert world.outcomes == []
    assert world.ends() == (0, 0)
    world.connection.data_received(JSON)
    assert world.answer.status == 200
    assert world.ends() == (1, 0)


def test_a_second_answer_in_the_same_segment_closes_the_connection() -> None:
    world = World().start(JSON + JSON)
    assert world.answer.body == b"{}"
    assert world.ends() == (0, 1)
    assert world.wire.aborted


@pytest.mark.parametrize("rest", [b"H", b"junk", b"HTTP/1.1 200"])
def test_bytes_after_a_complete_answer_close_the_connection(rest: bytes) -> None:
    world = World().start(JSON + rest)
    assert world.answer.body == b"{}"
    assert world.ends() == (0, 1)


def test_bytes_while_idle_close_the_connection() -> None:
    world = World().start(JSON)
    world.connection.data_received(JSON)
    assert world.ends() == (1, 1)
    assert len(world.outcomes) == 1


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    world = World().start(OK + b"Connection: close\r\n\r\n", b"{", b"}")
    assert world.outcomes == []
    world.connection.connection_lost(None)
    assert world.answer.body == b"{}"
    assert world.ends() == (0, 1)


def test_a_body_without_a_length_is_lost_by_a_reset() -> None:
    world = World().start(OK + b"\r\n{")
    world.connection.connection_lost(ConnectionResetError())
    assert isinstance(world.error, ConnectionLost)


@pytest.mark.parametrize(
    "part",
    [
        b"HTTP/1.1 200",
        OK + b"Content-Length: 9\r\n\r\n{",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
    ],
)
def test_an_answer_cut_off_is_an_error_and_never_a_result(part: bytes) -> None:
    world = World().start(part)
    world.connection.connection_lost(None)
    assert isinstance(world.error, ConnectionLost)
    assert (world.error.reason, world.error.received, world.error.keep_alive_race) == ("ClosedMidAnswer", True, False)


def test_a_kept_connection_closed_without_a_byte_is_told_from_a_new_one() -> None:
    fresh = World().start()
    fresh.connection.connection_lost(None)
    assert isinstance(fresh.error, ConnectionLost)
    assert (fresh.error.reused, fresh.error.sent, fresh.error.keep_alive_race) == (False, True, False)
    reused = World().start(JSON)
    reused.outcomes.clear()
    reused.start()
    reused.connection.connection_lost(None)
    assert isinstance(reused.error, ConnectionLost)
    assert (reused.error.reused, reused.error.sent, reused.error.keep_alive_race) == (True, True, True)
    assert (fresh.drops, reused.drops) == (0, 1)


def test_connection_close_is_heeded() -> None:
    world = World().start(OK + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}")
    assert world.answer.body == b"{}"
    assert world.ends() == (0, 1)


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: 1001\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + b"x" * 1001,
        OK + b"\r\n" + b"x" * 1001,
        STREAM + b"3f0\r\ndata: " + b"x" * 1002,
    ],
)
def test_a_body_beyond_the_bound_is_refused_early(answer: bytes) -> None:
    world = World().start(answer)
    assert isinstance(world.error, TooLarge)
    assert world.error.reason == "AnswerTooLarge"
    assert world.ends() == (0, 1)


def test_chunk_extensions_are_bounded_also_with_a_byte_of_the_body_in_each_chunk() -> None:
    chunk = b"1;x=" + b"y" * 1_000 + b"\r\n{\r\n"
    world = World().start(OK + b"transfer-encoding: chunked\r\n\r\n", *[chunk] * 100)
    assert world.error.reason == "HeadersTooLarge"


def test_an_answer_in_the_smallest_chunks_costs_a_few_times_its_size() -> None:
    size = 1 << 20
    tracemalloc.start()
    world = World().start(OK + b"transfer-encoding: chunked\r\n\r\n", max_bytes=size)
    for _ in range(size // 2 // 512):
        world.connection.data_received(b"2\r\n{}\r\n" * 512)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * size
    world.connection.data_received(b"0\r\n\r\n")
    assert world.answer.body == b"{}" * (size // 2)


@pytest.mark.parametrize(
    "chunks",
    [
        [OK + b"a: b\r\n" * 130],
        [OK + b"a: ", *[b"x" * 1000] * 70],
        [b"HTTP/1.1 103 Early\r\n\r\n" * 100] * 60,
        [OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\nt: ", *[b"x" * 1000] * 70],
    ],
)
def test_headers_and_trailers_are_bounded(chunks: list[bytes]) -> None:
    world = World().start()
    for chunk in chunks:
        if world.connection.closed:
            break
        world.connection.data_received(chunk)
    assert isinstance(world.error, TooLarge)
    assert world.error.reason == "HeadersTooLarge"


@pytest.mark.parametrize(
    "answer",
    [
        b"220 mail ESMTP\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
    ],
)
def test_answers_that_are_not_plain_http_are_refused(answer: bytes) -> None:
    world = World().start(answer)
    assert isinstance(world.error, BadHttp)
    assert world.ends() == (0, 1)


def event(text: bytes) -> bytes:
    data = b"data: " + text + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


ANSWER = b'{"id":1,"result":{}}'
NOTE = b'{"method":"notifications/progress"}'


def test_a_stream_is_told_event_by_event_and_drained_before_the_release() -> None:
    seen: list[bytes] = []

    def on_event(data: bytes) -> bool:
        seen.append(data)
        return data == ANSWER

    world = World().start(STREAM + event(NOTE), on_event=on_event)
    assert (seen, world.outcomes) == ([NOTE], [])
    world.connection.data_received(event(ANSWER))
    assert (world.answer.body, world.answer.streamed) == (ANSWER, True)
    assert world.ends() == (0, 0)
    assert world.connection.deadline == world.now + DRAIN_SECONDS
    assert world.watched == [world.connection.deadline]
    world.connection.data_received(event(NOTE) + b"0\r\n\r\n")
    assert seen == [NOTE, ANSWER]
    assert world.ends() == (1, 0)


def test_a_stream_in_one_segment_needs_no_draining() -> None:
    world = World().start(STREAM + event(NOTE) + event(ANSWER) + b"0\r\n\r\n")
    assert world.answer.body == ANSWER
    assert world.ends() == (1, 0)


def test_a_stream_that_goes_on_after_its_answer_is_closed() -> None:
    world = World().start(STREAM + event(ANSWER))
    world.connection.data_received(event(b"x" * MAX_DRAIN_BYTES))
    assert world.answer.body == ANSWER
    assert world.ends() == (0, 1)


def test_a_stream_that_ends_without_an_answer_gives_an_empty_body() -> None:
    world = World().start(STREAM + event(NOTE) + b"0\r\n\r\n")
    assert (world.answer.streamed, world.answer.body) == (True, b"")
    assert world.ends() == (1, 0)


def test_a_stream_cut_off_before_its_answer_is_lost() -> None:
    world = World().start(STREAM + event(NOTE))
    world.connection.connection_lost(None)
    assert isinstance(world.error, ConnectionLost)


def test_an_error_in_the_callback_fails_the_call_with_it() -> None:
    def on_event(data: bytes) -> bool:
        raise TooLarge("too many events")

    world = World().start(STREAM + event(NOTE), on_event=on_event)
    assert str(world.error) == "too many events"
    assert world.ends() == (0, 1)


def test_a_consumer_of_a_stream_can_hold_it_up() -> None:
    opened: list[object] = []
    world = World().start(STREAM, on_open=opened.append)
    assert opened == [world.connection]
    world.connection.pause_reading()
    assert world.wire.paused
    world.connection.resume_reading()
    assert not world.wire.paused


def test_a_busy_connection_cannot_be_started_again() -> None:
    world = World().start()
    with pytest.raises(AssertionError):
        world.start()


def test_closing_tells_the_owner_once() -> None:
    world = World().start()
    world.connection.close()
    world.connection.close()
    world.connection.connection_lost(None)
    assert world.ends() == (0, 1)
    assert world.outcomes == []


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"timeout=5", 4),
        (b"max=10, Timeout = 5", None),
        (b"timeout=5, max=100", 4),
        (b"timeout=1", 0.5),
        (b"timeout=0", 0),
        (b"timeout=3600", 60),
        (b"max=5", None),
        (b"timeout=x", None),
    ],
)
def test_keep_alive_is_a_second_less_than_announced(value: bytes, seconds: float | None) -> None:
    assert keep_alive_seconds(value) == seconds


def test_a_repr_tells_the_state() -> None:
    world = World()
    assert repr(world.connection) == "<Connection new, 0 served>"
    world.start()
    assert repr(world.connection) == "<Connection busy, 0 served>"
    world.connection.close()
    assert repr(world.connection) == "<Connection closed, 0 served>"
