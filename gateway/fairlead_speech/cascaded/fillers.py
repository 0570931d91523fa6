"""Fillers: short phrases that a cascaded engine speaks while the user waits for a slow answer. Each phrase is
synthesized once in the engine's configured voice.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from typing import Final

from fairlead_models.cascaded_engines import FillerSetting
from fairlead_speech.cascaded.audio import RATE
from fairlead_speech.cascaded.backends import SpeechBackends

MAX_CACHED_BYTES: Final = 8 << 20
"""Maximum number of bytes of audio of all cached phrases."""
MAX_PHRASE_BYTES: Final = 15 * RATE * 2
"""Maximum number of bytes of audio of one cached phrase: 15 seconds."""


class FillerAudio:
    """Cache of filler phrases as audio in the engine's configured voice, which all sessions of the engine share.
    Phrases in a voice or at a speed that a client chose are not cached, because clients could fill the cache with them.
    """

    def __init__(self, voice: str) -> None:
        self._voice = voice
        self._audio: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    def caches(self, voice: str, speed: float) -> bool:
        """Whether phrases with this voice and speed are cached."""
        return voice == self._voice and speed == 1

    def audio(self, phrase: str, voice: str, speed: float) -> bytes | None:
        """Cached audio of a phrase; None if it is not cached."""
        audio = self._audio.get(phrase) if self.caches(voice, speed) else None
        if audio is not None:
            self._audio.move_to_end(phrase)
        return audio

    def add(self, phrase: str, voice: str, speed: float, audio: bytes) -> None:
        """Cache the audio of a phrase, and drop the least recently used phrases if the cache is full. Empty audio is
        not cached, so that the phrase is requested again the next time.
        """
        if not 0 < len(audio) <= MAX_PHRASE_BYTES or phrase in self._audio or not self.caches(voice, speed):
            return
        self._audio[phrase] = audio
        self._size += len(audio)
        while self._size > MAX_CACHED_BYTES:
            self._size -= len(self._audio.popitem(last=False)[1])

    async def prepare(self, backends: SpeechBackends, phrase: str) -> None:
        """Synthesize a phrase and add it to the cache, unless the cache has it. Raises BackendFailed."""
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
    """Chooses the filler phrases of one session, at most one in each turn of the user."""

    def __init__(self, setting: FillerSetting | None) -> None:
        self._setting = setting
        self._next_index = 0
        self._phrase_used = False

    def begin_turn(self) -> None:
        """Begin a turn of the user, in which one filler may be spoken."""
        self._phrase_used = False

    def phrase(self, language: str) -> str:
        """Filler phrase for the current turn; empty if the turn has had one, or if the engine has no fillers."""
        if self._setting is None or self._phrase_used:
            return ""
        return self.next_phrase(language)

    def next_phrase(self, language: str) -> str:
        """Filler phrase that will be spoken next; empty if the engine has no fillers."""
        if self._setting is None:
            return ""
        phrases = self._setting.languages.get(language) or self._setting.phrases
        return phrases[self._next_index % len(phrases)]

    def use_phrase(self) -> None:
        """Record that the current turn's filler is spoken."""
        self._phrase_used = True
        self._next_index += 1
