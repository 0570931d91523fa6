"""A speech engine for played sessions, from the player's point of view: a scripted provider and its client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from fairlead_speech.scripted import MadeCall, SpeechScript

FRAME_SECONDS: Final = 0.04
"""Seconds between two pieces of the user's speech, each of which is a word."""
Table = dict[str, dict[str, set[str]]]


class PlayTalk(Protocol):
    """One session, from the client's and the model's point of view."""

    @property
    def provider_tools(self) -> list[str]:
        """Names of the functions that the model has received."""
        ...

    @property
    def spoken_bytes(self) -> tuple[int, int]:
        """Bytes of audio that the client sent and the model received."""
        ...

    @property
    def heard_bytes(self) -> int:
        """Bytes of audio that the client received."""
        ...

    @property
    def over(self) -> bool:
        """Whether the model has finished speaking."""
        ...

    def transcript(self) -> str:
        """Transcript of the model's speech as sent to the client."""
        ...

    def images(self) -> list[tuple[str, str]]:
        """Ids of calls, and media types of the images that the client received as events."""
        ...

    def calls_by_id(self) -> dict[str, MadeCall]:
        """Calls of the model by id."""
        ...

    def tool_changes(self) -> list[tuple[float, frozenset[str]]]:
        """Times at which the model received functions, and their names, by the monotonic clock."""
        ...

    def results(self) -> dict[str, tuple[float, str]]:
        """Times at which the model received a call's result, and its text."""
        ...

    async def begin(self, words: str) -> None:
        """The user says some words. The end of the turn is not detected yet."""
        ...

    async def finish(self) -> None:
        """The user's turn ends, and the words are transcribed if they were not before."""
        ...

    async def ask(self) -> None:
        """Request an answer of the model, if it does not answer on its own."""
        ...

    async def wish(self, tier: str) -> None:
        """Request a tier from the gateway."""
        ...


class PlayEngine(Protocol):
    """An engine: its provider, its sessions, and the tools of each tier."""

    name: str
    agent: str
    """Agent whose API key the client uses."""
    table: Table
    """Tools that each tier adds for the agent."""
    hears_first: bool
    """Whether the tools that words select are available before the model answers these words; otherwise from the next
    turn."""
    hears_partials: bool
    """Whether words are transcribed before the user has finished speaking."""
    asked_with_tools: bool
    """Whether the model receives tools only with each request."""

    def providers(self, host: str, name: str) -> dict[str, dict[str, Any]]:
        """Entries of the providers file, while `serving`. Their names begin with the given name. `host` is the address
        of this machine for the gateway.
        """
        ...

    def serving(self, script: SpeechScript, host: str) -> contextlib.AbstractAsyncContextManager[object]:
        """Serve the model at that address of this machine."""
        ...

    def talk(self, base: str, key: str) -> contextlib.AbstractAsyncContextManager[PlayTalk]:
        """A session through the gateway at `base`."""
        ...


async def speak(words: str, send: Callable[[], Awaitable[None]]) -> None:
    """Speak words, one per frame. `send` sends a frame."""
    for _ in words.split():
        await send()
        await asyncio.sleep(FRAME_SECONDS)
