"""Event streams whose head equals that of the previous answer are read without an HTTP parser."""

from __future__ import annotations

from oneconnection import World

ANSWER = b'{"id":1,"result":{}}'
NOTE = b'{"method":"notifications/progress"}'
SIZED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"


def make_stream(*messages: bytes) -> bytes:
    body = b"".join(b"event: message\ndata: %b\n\n" % message for message in messages)
    return SIZED % len(body) + body


def test_a_stream_with_the_head_of_the_last_one_is_read_at_once() -> None:
    world = World()
    seen = []

    def on_event(data: bytes) -> bool:
        seen.append(data)
        return True

    for number in range(3):
        world.outcomes.clear()
        answer = b'{"id":%d,"result":{}}' % number
        world.start(make_stream(answer), on_event=on_event)
        assert (world.answer.body, world.answer.streamed) == (answer, True)
        assert world.ends() == (number + 1, 0)
    assert seen == [b'{"id":0,"result":{}}']


def test_messages_before_the_answer_are_told_behind_a_known_head_too() -> None:
    world = World().start(make_stream(ANSWER))
    seen: list[bytes] = []

    def on_event(data: bytes) -> bool:
        seen.append(data)
        return data == ANSWER

    for messages in ((NOTE, ANSWER), (ANSWER,), (NOTE,)):
        world.outcomes.clear()
        world.start(make_stream(*messages), on_event=on_event)
        assert world.answer.body == (ANSWER if ANSWER in messages else b"")
    assert seen == [NOTE, ANSWER, NOTE]
    assert world.ends() == (4, 0)


def test_a_stream_with_a_known_head_that_comes_in_parts_is_read_as_any() -> None:
    world = World().start(make_stream(ANSWER))
    world.outcomes.clear()
    data = make_stream(ANSWER)
    world.start(data[:-20], data[-20:])
    assert world.answer.body == ANSWER
    assert world.ends() == (2, 0)
