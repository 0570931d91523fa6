"""Turns of speech are transcribed one after the other, and none is lost."""

from __future__ import annotations

import asyncio
from typing import Any

from fairlead_models.cascaded_engines import SpeechToText, TextToSpeech
from fairlead_models.provider_requests import ProviderClient
from fairlead_speech.cascaded.audio import RATE
from fairlead_speech.cascaded.backends import SpeechBackends
from fairlead_speech.cascaded.conversation import ConversationItem
from fairlead_speech.cascaded.transcription import MAX_TURNS, TurnTranscription
from fairlead_speech.metrics import SpeechMetrics
from fairlead_speech.realtime.events import Event
from virtualtime import in_virtual_time


class HeldBackends(SpeechBackends):
    """Speech servers that answer when the test lets them."""

    def __init__(self) -> None:
        base = "http://127.0.0.1:9/v1"
        stt = SpeechToText(base_url=base, model="whisper")
        tts = TextToSpeech(base_url=base, model="kokoro")
        super().__init__("voice", stt, tts, ProviderClient(), SpeechMetrics())
        self.audio: list[bytes] = []
        self.release = asyncio.Event()

    async def transcribe(self, audio: bytes, language: str = "", rate: int = RATE) -> str:
        self.audio.append(audio)
        await self.release.wait()
        return f"heard {len(audio)}"


class Host:
    """A session that records events and updates."""

    def __init__(self) -> None:
        self.backends: SpeechBackends = HeldBackends()
        self.told: list[tuple[str, Any]] = []

    def emit(self, kind: str, **members: Any) -> None:
        self.told.append((kind.rpartition(".")[2], members.get("transcript")))

    def update(self, item: ConversationItem, shown: Event) -> None:
        item.wire = shown


def turn(*parts: Event) -> ConversationItem:
    return ConversationItem({"id": "item", "content": [*parts]}, 0)


AUDIO: Event = {"type": "input_audio", "transcript": None}


async def test_turns_are_transcribed_one_at_a_time_and_a_bounded_number_waits() -> None:
    host = Host()
    over = list[int]()
    turns = TurnTranscription(host, over.append)
    for number in range(MAX_TURNS):
        assert not turns.full
        turns.begin(turn(AUDIO), bytes(number), "", visible=False)
    await asyncio.sleep(0)
    backends = host.backends
    assert isinstance(backends, HeldBackends)
    assert (turns.full, len(backends.audio)) == (True, 1)
    backends.release.set()
    await turns.wait()
    assert over == [*range(MAX_TURNS)]
    assert [len(audio) for audio in backends.audio] == [*range(MAX_TURNS)]


async def test_waiting_for_all_turns_includes_those_that_end_meanwhile() -> None:
    host = Host()
    turns = TurnTranscription(host, lambda _: None)
    backends = host.backends
    assert isinstance(backends, HeldBackends)
    turns.begin(turn(AUDIO), b"1", "", visible=True)
    waiting = asyncio.create_task(turns.wait())
    await asyncio.sleep(0)
    turns.begin(turn(AUDIO), b"22", "", visible=True)
    backends.release.set()
    await waiting
    assert ("completed", "heard 2") in host.told


async def test_a_closed_session_transcribes_no_further_turn() -> None:
    host = Host()
    turns = TurnTranscription(host, lambda _: None)
    for _ in range(MAX_TURNS):
        turns.begin(turn(AUDIO), b"1", "", visible=False)
    await asyncio.sleep(0)
    await turns.aclose()
    assert not turns.busy
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("transcription")]


async def test_text_beside_the_audio_stays() -> None:
    host = Host()
    turns = TurnTranscription(host, lambda _: None)
    item = turn({"type": "input_text", "text": "Look:"}, AUDIO)
    backends = host.backends
    assert isinstance(backends, HeldBackends)
    backends.release.set()
    turns.begin(item, b"1", "", visible=True)
    await turns.wait()
    assert item.wire["content"] == [
        {"type": "input_text", "text": "Look:"},
        {"type": "input_audio", "transcript": "heard 1"},
    ]


@in_virtual_time
async def test_a_transcription_that_takes_too_long_as_a_whole_fails() -> None:
    host = Host()
    turns = TurnTranscription(host, lambda _: None)
    turns.begin(turn(AUDIO), b"1", "", visible=True)
    await turns.wait()
    assert turns.failure is not None
    assert (turns.failure.code, host.told) == ("stt_unavailable", [("failed", None)])
