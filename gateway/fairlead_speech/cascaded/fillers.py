"""Short phrases that are said while an answer takes longer, synthesised once for each voice."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from typing import Final

from fairlead_models.cascaded import FillerSetting
from fairlead_speech.cascaded.audio import RATE
from fairlead_speech.cascaded.backends import SpeechBackends

MOST_KEPT: Final = 8 << 20
"""Bytes of audio of all phrases that are kept."""
MOST_PHRASE: Final = 15 * RATE * 2
"""Bytes of audio of one phrase that is kept: 15 seconds."""


class FillerAudio:
    """Audio of phrases, of one engine and all its sessions."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, float, str], bytes] = OrderedDict()
        self._size = 0

    def kept(self, phrase: str, voice: str, speed: float) -> bytes | None:
        """Audio that is kept; None where there is none."""
        key = voice, speed, phrase
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def keep(self, phrase: str, voice: str, speed: float, audio: bytes) -> None:
        """Keep the audio of a phrase, in the place of those that were not said for the longest time."""
        key = voice, speed, phrase
        if len(audio) > MOST_PHRASE or key in self._kept:
            return
        self._kept[key] = audio
        self._size += len(audio)
        while self._size > MOST_KEPT:
            self._size -= len(self._kept.popitem(last=False)[1])

    async def prepare(self, backends: SpeechBackends, phrase: str, voice: str, speed: float) -> None:
        """Synthesise a phrase that is not kept. Raises BackendFailed."""
        if self.kept(phrase, voice, speed) is not None:
            return
        audio = bytearray()
        async with contextlib.aclosing(backends.spoken(phrase, voice, speed)) as pieces:
            async for piece in pieces:
                audio += piece
                if len(audio) > MOST_PHRASE:
                    return
        self.keep(phrase, voice, speed, bytes(audio))


class FillerTurns:
    """Phrases of one session: one in each turn of the user's."""

    def __init__(self, setting: FillerSetting | None) -> None:
        self._setting = setting
        self._next = 0
        self._said = False

    def turn_began(self) -> None:
        """The user said something: a phrase may be said again."""
        self._said = False

    def phrase(self, language: str) -> str:
        """The phrase of this turn; empty where none may be said any more."""
        if self._setting is None or self._said:
            return ""
        return self.next_phrase(language)

    def next_phrase(self, language: str) -> str:
        """The phrase that is said next; empty where none are."""
        if self._setting is None:
            return ""
        phrases = self._setting.languages.get(language) or self._setting.phrases
        return phrases[self._next % len(phrases)]

    def said(self) -> None:
        """The phrase of this turn is being said."""
        self._said = True
        self._next += 1
