"""Decisions about routed Gemini Live sessions, tested without a session: setups, audio in messages, messages for
turns."""

from __future__ import annotations

import base64
import json
from types import SimpleNamespace
from typing import Any

import pytest

from fairlead_api.documents.rules import Tier, TierSelection
from fairlead_formats.tools.between import between
from fairlead_speech.cascaded.audio import wav
from fairlead_speech.cascaded.input_audio import DetectionSettings, InputAudioBuffer
from fairlead_speech.gemini.engine_messages import EngineMessages
from fairlead_speech.gemini.routed_setup import RoutedSetup
from fairlead_speech.gemini.user_turns import (
    MAX_PENDING,
    MAX_PENDING_BYTES,
    PIECE_BYTES,
    PendingContents,
    UserTurn,
    input_audio,
    text_content,
    turn_messages,
)
from fairlead_speech.tiers import words_may_decide

SLOW = Tier(name="deep", max_latency_ms=4000, selection=TierSelection(keywords=("legend",)))
SHIPPED = Tier(name="deep", max_latency_ms=4000, selection=TierSelection(shipped_words=True))
MUTE = Tier(name="deep", max_latency_ms=4000)
FAST = Tier(name="fast", max_latency_ms=500, default=True)


class Kept:
    """A client that records messages."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    async def send(self, data: bytes) -> None:
        self.messages.append(json.loads(data))


def catalog(*tiers: Tier, shown: tuple[str, ...] = ("fast", "deep")) -> Any:
    """The parts of a principal's catalog that the choice of a tier reads."""
    return SimpleNamespace(
        snapshot=SimpleNamespace(rules=SimpleNamespace(tiers=tiers)), tiers=shown, default_tier="fast"
    )


def kinds(turns: list[UserTurn]) -> list[str]:
    """Types of the messages for these turns."""
    names = []
    for message in map(json.loads, turn_messages(turns)):
        (outer,) = message
        names.append(next(iter(message[outer])) if outer == "realtimeInput" else outer)
    return names


def test_the_provider_finds_no_turns_and_writes_down_what_is_said() -> None:
    setup = {"model": "x", "realtime_input_config": {"automatic_activity_detection": {"prefix_padding_ms": 100}}}
    assert RoutedSetup(setup).for_provider() == {
        "model": "x",
        "realtime_input_config": {"automaticActivityDetection": {"disabled": True}},
        "inputAudioTranscription": {},
        "outputAudioTranscription": {},
    }
    written = {"generationConfig": {"responseModalities": ["TEXT"]}, "inputAudioTranscription": {"x": 1}}
    setup_read = RoutedSetup(written)
    assert (setup_read.for_provider()["inputAudioTranscription"], setup_read.text_only) == ({"x": 1}, True)
    assert "outputAudioTranscription" not in setup_read.for_provider()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, DetectionSettings()),
        ({"prefixPaddingMs": 20, "silenceDurationMs": 800}, DetectionSettings(0.5, 20, 800)),
        ({"prefixPaddingMs": 10**9, "silenceDurationMs": -1}, DetectionSettings(0.5, 5000, 100)),
        ({"prefixPaddingMs": True, "silenceDurationMs": "x"}, DetectionSettings()),
        ({"startOfSpeechSensitivity": "START_SENSITIVITY_LOW"}, DetectionSettings(0.75)),
        ({"end_of_speech_sensitivity": "END_SENSITIVITY_LOW"}, DetectionSettings(silence_duration_ms=900)),
        ({"disabled": True}, None),
    ],
)
def test_settings_of_a_client_for_the_provider_hold_here(given: dict[str, Any], expected: DetectionSettings) -> None:
    setup = {"realtimeInputConfig": {"automaticActivityDetection": given}}
    assert RoutedSetup(setup).detection == expected


def test_an_engine_gets_a_clients_functions_instructions_and_language() -> None:
    schema = {"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}}
    functions = [{"name": "dice.roll", "description": "Roll", "parameters": schema}]
    setup = RoutedSetup(
        {
            "tools": [{"functionDeclarations": functions}, {"googleSearch": {}}],
            "systemInstruction": "Be kind.",
            "generationConfig": {"speechConfig": {"languageCode": "de-DE"}},
        }
    )
    session = setup.for_engine()
    (tool,) = session["tools"]
    assert setup.client_name(tool["name"]) == "dice.roll"
    assert (tool["type"], tool["parameters"]["properties"]["a"]["type"]) == ("function", "integer")
    assert (session["instructions"], session["output_modalities"]) == ("Be kind.", ["audio"])
    assert session["audio"]["input"]["transcription"]["language"] == "de"
    setup.update({"context_update": {"tools": {"tools": []}}})
    assert (setup.for_engine()["tools"], setup.for_engine()["instructions"]) == ([], "Be kind.")


@pytest.mark.parametrize(
    ("kind", "rate"),
    [
        ("audio/pcm", 16_000),
        ("audio/pcm;rate=24000", 24_000),
        ("audio/PCM; rate=8000", 8_000),
        ("audio/pcm;rate=1", None),
        ("audio/ogg", None),
        ("image/png", None),
    ],
)
async def test_pcm_is_decoded_and_all_else_is_left(kind: str, rate: int | None) -> None:
    blob = {"data": base64.urlsafe_b64encode(b"\xff\xfe" * 4).decode(), "mime_type": kind}
    live = {"audio": blob, "media_chunks": [blob], "text": "x"}
    left = dict(live)
    chunks = [each async for each in input_audio(live, left)]
    if rate is None:
        assert (chunks, left) == ([None, None], live)
    else:
        assert (chunks, left) == ([(b"\xff\xfe" * 4, rate)] * 2, {"text": "x"})


async def test_audio_that_is_not_base64_is_left_to_the_provider() -> None:
    live = {"audio": {"data": "???", "mimeType": "audio/pcm"}}
    left = dict(live)
    assert ([each async for each in input_audio(live, left)], left) == ([None], live)


def test_turns_of_speech_that_follow_each_other_are_one_to_the_provider() -> None:
    speech = UserTurn(b"\1\1" * 8)
    text = UserTurn(message={"clientContent": {"turns": [], "turnComplete": True}})
    assert kinds([speech]) == ["activityStart", "audio", "activityEnd"]
    assert kinds([speech, speech]) == ["activityStart", "audio", "audio", "activityEnd"]
    assert kinds([speech, text]) == ["activityStart", "audio", "activityEnd", "clientContent"]
    assert kinds([UserTurn(bytes(PIECE_BYTES + 2))]) == ["activityStart", "audio", "audio", "activityEnd"]


def test_a_turn_becomes_contents_with_its_words() -> None:
    turns = [{"role": "user", "parts": [{"text": "Hi"}]}]
    assert UserTurn(message={"client_content": {"turns": turns}}).contents() == turns
    assert UserTurn(message={"realtimeInput": {"text": "Hi"}}).contents() == turns
    assert (UserTurn(b"..", words="Hi").contents(), UserTurn(b"..").contents()) == (turns, [])


def test_contents_that_wait_for_the_provider_are_bounded() -> None:
    told = PendingContents()
    assert told.message() is None
    told.add([text_content("user", str(number)) for number in range(MAX_PENDING + 1)])
    message = json.loads(told.message() or b"")["clientContent"]
    assert (len(message["turns"]), message["turns"][0]["parts"]) == (MAX_PENDING, [{"text": "1"}])
    assert (message["turnComplete"], told.message()) == (False, None)
    told.add([text_content("user", "x" * (MAX_PENDING_BYTES - 60)), text_content("model", "y" * 60)])
    assert [each["role"] for each in json.loads(told.message() or b"")["clientContent"]["turns"]] == ["model"]


@pytest.mark.parametrize(
    ("tiers", "named", "shown", "decision"),
    [
        ((FAST, SLOW), None, ("fast", "deep"), True),
        ((FAST, SLOW), "fast", ("fast", "deep"), False),
        ((FAST, SLOW), None, ("fast",), False),
        ((FAST, SHIPPED), None, ("fast", "deep"), True),
        ((FAST, MUTE), None, ("fast", "deep"), False),
        ((), None, (), False),
    ],
)
def test_words_decide_who_answers_where_they_may_choose_a_slow_tier(
    tiers: tuple[Tier, ...], named: str | None, shown: tuple[str, ...], *, decision: bool
) -> None:
    assert words_may_decide(catalog(*tiers, shown=shown), named, None) is decision


def test_audio_of_every_rate_is_cut_into_windows_of_whole_samples() -> None:
    buffer = InputAudioBuffer(DetectionSettings(), 11_025)
    windows = buffer.windows(bytes(1000))
    assert [len(window) for window in windows] == [440, 440]
    for window in windows:
        buffer.add_window(window)
    assert buffer.milliseconds == 39
    assert wav(b"....", 16_000)[24:32] == (16_000).to_bytes(4, "little") + (32_000).to_bytes(4, "little")


def test_the_audio_of_a_turn_may_be_taken_while_it_goes_on() -> None:
    buffer = InputAudioBuffer(DetectionSettings(silence_duration_ms=100), 16_000)
    loud = b"\0\x10" * 320
    quiet = bytes(640)
    assert [buffer.add_window(loud), buffer.add_window(loud)] == [None, True]
    assert (buffer.take_partial(), buffer.speaking) == (loud * 2, True)
    assert [buffer.add_window(quiet) for _ in range(5)] == [None] * 4 + [False]
    assert buffer.take_turn() == quiet * 5


async def test_an_engines_events_are_messages_of_the_providers_form() -> None:
    client = Kept()
    times = [5.0, 5.5, 6.5]
    voice = EngineMessages(client, RoutedSetup({"outputAudioTranscription": {}}), lambda: times.pop(0))
    audio = base64.b64encode(bytes(48_000)).decode()
    call = {"type": "function_call", "status": "completed", "call_id": "call_1", "name": "roll", "arguments": '{"a":1}'}
    for event in (
        {"type": "response.output_audio.delta", "delta": audio},
        {"type": "response.output_audio_transcript.delta", "delta": "Hi"},
        {"type": "response.output_item.done", "item": call},
        {"type": "response.output_item.done", "item": {**call, "call_id": "call_2", "arguments": "{"}},
        {"type": "response.output_item.done", "item": {**call, "status": "incomplete"}},
        {"type": "response.done", "response": {"status": "completed"}},
        {"type": "conversation.item.added", "item": {}},
    ):
        await voice.send(json.dumps(event).encode())
    spoken, written, called = client.messages
    part = {"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": audio}}
    assert spoken == {"serverContent": {"modelTurn": {"parts": [part]}}}
    assert written == {"serverContent": {"outputTranscription": {"text": "Hi"}}}
    assert called["toolCall"]["functionCalls"] == [
        {"id": "call_1", "name": "roll", "args": {"a": 1}},
        {"id": "call_2", "name": "roll", "args": {}},
    ]
    assert [voice.playing for _ in range(2)] == [True, False]
    await voice.interrupt_turn()
    assert [[*each] for each in client.messages[3:]] == [["serverContent"], ["toolCallCancellation"], ["serverContent"]]
    assert client.messages[-1] == {"serverContent": {"turnComplete": True}}


def test_no_sample_is_cut_in_two_between_turns_of_a_client_that_sends_odd_pieces() -> None:
    speech = b"\0\x10" * 3200
    silence = bytes(19_200)
    stream = (speech + silence) * 3
    buffer = InputAudioBuffer(DetectionSettings(), 16_000)
    taken = []
    seen = b""
    for start in range(0, len(stream), 1001):
        for window in buffer.windows(stream[start : start + 1001]):
            seen += window
            if buffer.add_window(window) is False:
                taken.append(buffer.take_turn())
    assert seen == stream[: len(seen)]
    assert [audio.count(speech) for audio in taken] == [1, 1, 1]


def test_updates_while_an_engine_is_set_up_are_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = RoutedSetup({"systemInstruction": {"parts": [{"text": "Be kind."}]}})

    def update_setup(*args: Any) -> Any:
        monkeypatch.undo()
        setup.update({"contextUpdate": {"systemInstruction": {"parts": [{"text": "Be brief."}]}}})
        return between(*args)

    monkeypatch.setattr("fairlead_speech.gemini.routed_setup.between", update_setup)
    assert setup.for_engine()["instructions"] == "Be kind."
    assert setup.for_engine()["instructions"] == "Be brief."


async def test_a_blob_is_decoded_when_its_value_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []

    async def decode(data: str) -> bytes:
        taken.append(data)
        return b".."

    monkeypatch.setattr("fairlead_speech.gemini.user_turns.decode", decode)
    live = {"mediaChunks": [{"mimeType": "audio/pcm", "data": f"{number}"} for number in range(3)]}
    heard = input_audio(live, dict(live))
    assert (await anext(heard), taken) == ((b"..", 16_000), ["0"]), "a message may hold a hundred thousand"
