"""The conversation of a cascaded engine is bounded, and every request to the model is valid for its API."""

from __future__ import annotations

import pytest

from fairlead_speech.cascaded.conversation import (
    MAX_BYTES,
    MAX_RESULT_BYTES,
    NO_RESULT,
    SpokenConversation,
    SpokenPiece,
    TooLargeItem,
    chat_messages,
    truncate,
)
from fairlead_speech.cascaded.event_queue import MAX_BYTES_BEFORE_AUDIO, MAX_QUEUED_BYTES, EventQueue
from fairlead_speech.realtime.events import Event
from fairlead_speech.sockets import Closing


def message(ident: str, role: str, text: str) -> Event:
    return {"id": ident, "type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def call(ident: str) -> Event:
    return {"id": f"item_{ident}", "type": "function_call", "call_id": ident, "name": "add", "arguments": "{}"}


def output(ident: str, text: str) -> Event:
    return {"id": f"out_{ident}", "type": "function_call_output", "call_id": ident, "output": text}


def fill(*items: Event) -> SpokenConversation:
    conversation = SpokenConversation()
    for item in items:
        conversation.add(item)
    return conversation


def test_results_stand_behind_their_calls_whenever_they_came() -> None:
    talk = fill(
        message("1", "user", "Add"),
        message("2", "assistant", "One moment."),
        call("a"),
        call("b"),
        message("3", "user", "Hurry"),
        output("a", "5"),
    )
    rendered = chat_messages("Be kind.", talk.items())
    assert [each["role"] for each in rendered] == ["system", "user", "assistant", "tool", "tool", "user"]
    assert rendered[2]["content"] == "One moment."
    assert [each["id"] for each in rendered[2]["tool_calls"]] == ["a", "b"]
    assert [each["content"] for each in rendered[3:5]] == ["5", NO_RESULT]


def test_phrases_that_fill_the_time_are_not_for_the_model() -> None:
    talk = fill(message("1", "user", "Hi"))
    talk.add(message("2", "assistant", "Let me think."), filler=True)
    assert chat_messages("", talk.items()) == [{"role": "user", "content": "Hi"}]


def test_the_oldest_are_forgotten_beyond_the_bound_with_all_that_belongs_to_them() -> None:
    talk = fill(call("old"), output("old", "x" * (MAX_BYTES // 2)), message("2", "user", "y" * (MAX_BYTES // 2)))
    talk.add(message("3", "user", "new"))
    assert "item_old" not in talk
    roles = [each["role"] for each in chat_messages("", talk.items())]
    assert roles == ["user", "user"], "a result without its call is left out"
    with pytest.raises(TooLargeItem):
        talk.add(message("4", "user", "z" * MAX_BYTES))


def test_calls_of_one_answer_share_the_room_for_their_results() -> None:
    talk = fill(message("1", "user", "Add"), call("a"), output("a", "5"), *(call(f"b{each}") for each in range(32)))
    assert (talk.result_room("a"), talk.result_room("b7"), talk.result_room("c")) == (MAX_RESULT_BYTES, 16 << 10, 0)
    for each in range(32):
        talk.add(output(f"b{each}", "x" * talk.result_room(f"b{each}")))
    assert talk.get("1") is not None, "the question is not forgotten"


def test_an_item_may_be_put_behind_another() -> None:
    talk = fill(message("1", "user", "one"), message("3", "user", "three"))
    _, before = talk.add(message("2", "user", "two"), after="1")
    assert (before, [each.id for each in talk.items()], talk.last) == ("1", ["1", "2", "3"], "3")


def test_an_answer_is_cut_where_its_playback_stopped() -> None:
    item, _ = SpokenConversation().add(message("1", "assistant", "all"))
    item.spoken = [SpokenPiece("One two. ", 48_000), SpokenPiece("Three four five six.", 96_000)]
    assert truncate(item, 4000) is None
    for heard, text in (
        (0, ""),
        (1000, "One two."),
        (2000, "One two. Three four"),
        (3000, "One two. Three four five six."),
    ):
        item_sent = truncate(item, heard)
        assert item_sent is not None
        assert item_sent["content"] == [{"type": "output_audio", "transcript": text}]


async def test_a_client_that_sends_and_does_not_read_ends_its_session() -> None:
    queue = EventQueue()
    for _ in range(MAX_QUEUED_BYTES // 1000 + 1):
        queue.put(bytes(1000))
    ended = await queue.get()
    assert isinstance(ended, Closing)
    assert ended.code == 1013


async def test_audio_waits_while_much_waits() -> None:
    queue = EventQueue()
    queue.put(bytes(MAX_BYTES_BEFORE_AUDIO + 1))
    waiting = queue.put_when_room(b"audio")
    waiting.send(None)  # it waits
    await queue.get()
    with pytest.raises(StopIteration):
        waiting.send(None)
    assert await queue.get() == b"audio"
