"""A speech engine that a session is played over, as the player sees it: a scripted provider, and a client of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from fairlead_speech.scripted import MadeCall, SpeechScript

FRAME_SECONDS: Final = 0.04
"""Between two pieces of the user's speech, each of which is a word."""
Table = dict[str, dict[str, set[str]]]


class PlayTalk(Protocol):
    """One session, seen from its client and from the model."""

    @property
    def provider_tools(self) -> list[str]:
        """Names of the functions that the model has."""
        ...

    @property
    def spoken_bytes(self) -> tuple[int, int]:
        """Bytes of audio that the client sent, and that the model heard."""
        ...

    @property
    def heard_bytes(self) -> int:
        """Bytes of audio that the client got."""
        ...

    @property
    def over(self) -> bool:
        """Whether the model has finished what it says."""
        ...

    def transcript(self) -> str:
        """All that the client was told the model said."""
        ...

    def images(self) -> list[tuple[str, str]]:
        """Ids of calls and media types of what came to the client as events."""
        ...

    def made(self) -> dict[str, MadeCall]:
        """Calls that the model made, by their ids."""
        ...

    def shown(self) -> list[tuple[float, frozenset[str]]]:
        """When the model got which functions, by the monotonic clock."""
        ...

    def results(self) -> dict[str, tuple[float, str]]:
        """When the model got a call's result, and its text."""
        ...

    async def begin(self, words: str) -> None:
        """The user says some words; the end of it is not heard yet."""
        ...

    async def finish(self) -> None:
        """The user has spoken: the words are heard, where they were not before."""
        ...

    async def ask(self) -> None:
        """Have the model answer, where it does not by itself."""
        ...

    async def wish(self, tier: str) -> None:
        """Ask the gateway for a tier."""
        ...


class PlayEngine(Protocol):
    """An engine. What a provider is, what its sessions are like, and which tools a tier has for it."""

    name: str
    agent: str
    """Agent whose key the client has."""
    table: Table
    """Tools that each tier adds for the agent."""
    hears_first: bool
    """Whether tools that follow from words are there before the model answers them; else with the next turn."""
    hears_partials: bool
    """Whether words are known before the user has spoken to the end."""
    asked_with_tools: bool
    """Whether the model gets tools with each request, and not before."""

    def providers(self, host: str, name: str) -> dict[str, dict[str, Any]]:
        """Entries of the file of providers, while `serving`; their names begin with that one. `host` is where the
        gateway reaches this machine.
        """
        ...

    def serving(self, script: SpeechScript, host: str) -> contextlib.AbstractAsyncContextManager[object]:
        """Serve the model at that address of this machine."""
        ...

    def talk(self, base: str, key: str) -> contextlib.AbstractAsyncContextManager[PlayTalk]:
        """A session through the gateway at `base`."""
        ...


async def spoken(words: str, send: Callable[[], Awaitable[None]]) -> None:
    """Say words, one a frame; `send` sends a frame."""
    for _ in words.split():
        await send()
        await asyncio.sleep(FRAME_SECONDS)
