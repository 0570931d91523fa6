"""Short phrases that are said while an answer takes longer, synthesised once in the engine's own voice."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from typing import Final

from fairlead_models.cascaded import FillerSetting
from fairlead_speech.cascaded.audio import RATE
from fairlead_speech.cascaded.backends import SpeechBackends

MAX_CACHED_BYTES: Final = 8 << 20
"""Bytes of audio of all phrases that are kept."""
MAX_PHRASE_BYTES: Final = 15 * RATE * 2
"""Bytes of audio of one phrase that is kept: 15 seconds."""


class FillerAudio:
    """Audio of phrases in the engine's own voice, for all its sessions. That of a voice or speed that a client chose is
    not kept: clients would fill the room with theirs.
    """

    def __init__(self, voice: str) -> None:
        self._voice = voice
        self._audio: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    def caches(self, voice: str, speed: float) -> bool:
        """Whether phrases in that voice and at that speed are kept."""
        return voice == self._voice and speed == 1

    def audio(self, phrase: str, voice: str, speed: float) -> bytes | None:
        """Audio that is kept; None where there is none."""
        audio = self._audio.get(phrase) if self.caches(voice, speed) else None
        if audio is not None:
            self._audio.move_to_end(phrase)
        return audio

    def add(self, phrase: str, voice: str, speed: float, audio: bytes) -> None:
        """Keep the audio of a phrase, in the place of those that were not said for the longest time. A server that said
        nothing is asked again the next time.
        """
        if not 0 < len(audio) <= MAX_PHRASE_BYTES or phrase in self._audio or not self.caches(voice, speed):
            return
        self._audio[phrase] = audio
        self._size += len(audio)
        while self._size > MAX_CACHED_BYTES:
            self._size -= len(self._audio.popitem(last=False)[1])

    async def prepare(self, backends: SpeechBackends, phrase: str) -> None:
        """Synthesise a phrase that is not kept. Raises BackendFailed."""
        voice = self._voice
        if self.audio(phrase, voice, 1) is not None:
            return
        audio = bytearray()
        async with contextlib.aclosing(backends.synthesize(phrase, voice)) as pieces:
            async for piece in pieces:
                audio += piece
                if len(audio) > MAX_PHRASE_BYTES:
                    return
        self.add(phrase, voice, 1, bytes(audio))


class FillerTurns:
    """Phrases of one session: one in each turn of the user's."""

    def __init__(self, setting: FillerSetting | None) -> None:
        self._setting = setting
        self._next = 0
        self._phrase_used = False

    def begin_turn(self) -> None:
        """The user said something: a phrase may be said again."""
        self._phrase_used = False

    def phrase(self, language: str) -> str:
        """The phrase of this turn; empty where none may be said any more."""
        if self._setting is None or self._phrase_used:
            return ""
        return self.next_phrase(language)

    def next_phrase(self, language: str) -> str:
        """The phrase that is said next; empty where none are."""
        if self._setting is None:
            return ""
        phrases = self._setting.languages.get(language) or self._setting.phrases
        return phrases[self._next % len(phrases)]

    def use_phrase(self) -> None:
        """The phrase of this turn is being said."""
        self._phrase_used = True
        self._next += 1
