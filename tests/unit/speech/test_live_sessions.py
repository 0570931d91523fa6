"""Decisions about Gemini Live sessions, tested without a session: models, turns, setups, and replaced connections."""

from __future__ import annotations

import asyncio
import json

import pytest

from fairlead_offers.offer.offers import ToolOffer
from fairlead_speech.gemini.connections import ProviderConnection
from fairlead_speech.gemini.messages import GoAway, read, read_server, without_members, written_text
from fairlead_speech.gemini.models import BLOCKING, NON_BLOCKING, LiveModel, live_model
from fairlead_speech.gemini.setup import SessionSetup
from fairlead_speech.gemini.turns import PAUSE_SECONDS, LiveTurns
from fairlead_speech.messages import UnreadableMessage
from fairlead_speech.sockets import Closing

ADD = b'{"name":"add","description":"Add","parameters":{"type":"object","properties":{"a":{"type":"integer"}}}}'


def never(_: Closing) -> bool:
    """Never replace a closed connection."""
    return False


class Recorded:
    """Connection to a provider that records messages and sends none."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.binary = self.received_binary = False
        self.stalled_seconds = 0.0
        self.closed = asyncio.Event()

    async def receive(self) -> bytes | Closing:
        await self.closed.wait()
        return Closing(1000)

    async def send(self, data: bytes) -> None:
        self.sent.append(data)

    async def close(self, closing: Closing) -> None:
        self.closed.set()


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("gemini-3.8-live", LiveModel(True, (BLOCKING, NON_BLOCKING))),
        ("gemini-3.8-live-extended-thinking", LiveModel(True, (NON_BLOCKING,))),
        ("gemini-4-live", LiveModel(True, (BLOCKING, NON_BLOCKING))),
        ("gemini-3.1-flash-live-preview", LiveModel(False, takes_content=False)),
        ("gemini-live-2.5-flash", LiveModel(False, (BLOCKING, NON_BLOCKING))),
        ("gemini-2.5-flash-native-audio-preview-12-2025", LiveModel(False, (BLOCKING, NON_BLOCKING))),
        ("our-own", LiveModel(False)),
    ],
)
def test_a_models_version_says_what_it_can(name: str, model: LiveModel) -> None:
    assert live_model(name) == model


def test_a_session_is_resumable_between_two_turns_alone() -> None:
    turns = LiveTurns()
    assert not turns.resumable(0), "before the first handle"
    turns.on_handle("one", resumable=True)
    assert turns.resumable(0)
    turns.on_transcription(0)
    assert not turns.resumable(0), "the user speaks"
    assert turns.resumable(PAUSE_SECONDS)
    assert turns.on_output()
    assert not turns.on_output()
    turns.add_calls(["a"])
    turns.end_turn()
    turns.on_handle("two", resumable=True)
    assert not turns.resumable(9), "a call is open"
    turns.finish_calls(["a"])
    assert not turns.resumable(9), "the handle does not know of its result"
    turns.on_handle("", resumable=False)
    turns.on_handle("three", resumable=True)
    assert turns.resumable(9)
    turns.request_answer()
    assert not turns.resumable(9)


def test_a_setup_has_both_lists_and_remembers_what_the_client_changes() -> None:
    own = {"function_declarations": [{"name": "own"}]}
    setup = SessionSetup({"model": "models/x", "tools": [own], "system_instruction": {"parts": []}}, "m", lambda _: "")
    setup.set_offer(ToolOffer(0, definitions=(ADD,), names=("add",)))
    assert setup.answers_call("add")
    assert not setup.answers_call("own")
    first = json.loads(setup.message())["setup"]
    assert (first["model"], len(first["tools"]), first["sessionResumption"]) == ("models/m", 2, {})
    assert not setup.pending
    sent = setup.client_update({"context_update": {"tools": {"tools": []}, "system_instruction": {"parts": [1]}}})
    assert [tool["functionDeclarations"][0]["name"] for tool in sent["context_update"]["tools"]["tools"]] == ["add"]
    again = json.loads(setup.message("h"))["setup"]
    assert again["systemInstruction"] == {"parts": [1]}
    assert "system_instruction" not in again
    assert again["sessionResumption"] == {"handle": "h"}
    setup.set_offer(ToolOffer(0))
    assert setup.pending


def test_messages_are_read_in_both_spellings_and_what_is_none_is_refused() -> None:
    message = read_server(b'{"serverContent":{"modelTurn":{"parts":[]},"turnComplete":true},"usageMetadata":{"x":1}}')
    assert message.server_content is not None
    assert (message.server_content.has_output, message.server_content.turn_over) == (True, True)
    assert read_server(b'{"serverContent":{"modelTurn":null}}').server_content is not None
    for broken in (b"", b"[]", b'"x"', b"\xff", b"[" * 5000, b'{"serverContent":7}'):
        with pytest.raises(UnreadableMessage):
            read_server(broken)
    assert written_text(read(b'{"client_content":{"turns":{"parts":[{"text":"a"},{"text":"b"}]}}}')) == "a b"
    assert written_text(read(b'{"clientContent":{"turns":[{"role":"model","parts":[{"text":"a"}]}]}}')) == ""
    assert without_members({"go_away": {}, "x": 1}, "goAway") == {"x": 1}
    assert without_members({"goAway": {}}, "goAway") is None
    assert (GoAway("50.5s").seconds, GoAway("soon").seconds) == (50.5, 0.0)


async def test_messages_sent_since_the_handle_go_over_the_next_connection() -> None:
    first = Recorded()
    second = Recorded()
    line = ProviderConnection(first, never)
    await line.send(b"before")
    line.on_handle()
    await line.send(b"behind")
    line.pause()
    reading = asyncio.create_task(line.receive())

    async def connect() -> Recorded:
        await line.send(b"meanwhile")
        return second

    assert await line.replace(connect)
    await line.send(b"after")
    assert first.sent == [b"before", b"behind"]
    assert second.sent == [b"behind", b"meanwhile", b"after"]
    assert not reading.done(), "the end of the first one does not end the session"
    second.closed.set()
    assert await reading == Closing(1000)


async def test_a_line_keeps_no_more_than_its_bound() -> None:
    line = ProviderConnection(Recorded(), never, max_bytes=10)
    data = b"12345"
    for _ in range(2):
        await line.send(data)
    states = [line.complete]
    await line.send(data)
    states.append(line.complete)
    line.on_handle()
    states.append(line.complete)
    assert states == [True, False, True], "beyond it a connection could not be replaced without a loss"
    line.pause()
    await line.send(data)
    await line.send(data)
    waiting = asyncio.create_task(line.send(data))
    await asyncio.sleep(0)
    assert not waiting.done(), "the client is held up"
    fresh = Recorded()

    async def connect() -> Recorded:
        return fresh

    assert await line.replace(connect)
    await waiting
    assert fresh.sent == [data] * 3


async def test_a_line_that_cannot_be_replaced_ends_as_its_last_attempt_did() -> None:
    line = ProviderConnection(Recorded(), never)
    line.pause()

    async def connect() -> Closing:
        return Closing(1007, "no such handle")

    assert not await line.replace(connect)
    assert await line.receive() == Closing(1007, "no such handle")
    assert not line.connected
    await line.send(b"into the void")
