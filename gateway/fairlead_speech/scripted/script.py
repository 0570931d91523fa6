"""Scripts of speech models: words that they hear, words that they say, and calls."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec

NOTHING_LEFT: Final = "I have nothing more to say."


class SpokenCall(msgspec.Struct, frozen=True):
    """A call of a tool."""

    name: str
    arguments: Mapping[str, Any] = {}
    id: str = ""
    """Empty: a new one."""


class SpokenReply(msgspec.Struct, frozen=True):
    """One answer: speech, then calls."""

    text: str = ""
    """Words that are said, as transcript and as audio; empty: none."""
    calls: tuple[SpokenCall, ...] = ()
    held: asyncio.Event | None = None
    """The rest of the answer, after its first piece of audio, waits for this."""


class SpeechScript:
    """Replies in their order, and what is heard in each turn of speech."""

    def __init__(self, *replies: SpokenReply, heard: tuple[str, ...] = ()) -> None:
        self._replies = [*replies]
        self._heard = [*heard]

    def next_reply(self) -> SpokenReply:
        """The next answer."""
        return self._replies.pop(0) if self._replies else SpokenReply(NOTHING_LEFT)

    def next_heard(self) -> str:
        """The transcript of the next turn of speech."""
        return self._heard.pop(0) if self._heard else "(unclear)"


def audio_of(text: str) -> list[bytes]:
    """PCM of 40 ms at 24 kHz for each word, never silent."""
    return [bytes([1 + sum(word.encode()) % 255]) * 1920 for word in text.split()]
