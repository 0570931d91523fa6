"""Scripted replies and the connection of a client, shared by the scripted speech models of all engines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

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
    """Event that the rest of the answer waits for, after its first piece of audio."""


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


class MadeCall(msgspec.Struct, frozen=True):
    """A call that a model made."""

    name: str
    at: float
    """Seconds of the monotonic clock."""

    @classmethod
    def now(cls, name: str) -> MadeCall:
        """Call that is made now."""
        return cls(name, time.monotonic())


class ScriptedConnection:
    """Base of a scripted session: records what its client sent."""

    def __init__(self, socket: web.WebSocketResponse, request: web.BaseRequest) -> None:
        self._socket = socket
        self._request = request
        self.headers = {name.lower(): value for name, value in request.headers.items()}
        self.query = dict(request.query)
        self.received: list[dict[str, Any]] = []
        """Messages of the client in their order."""
        self.received_at: list[float] = []
        """When each of them came, in seconds of the monotonic clock."""
        self.made: dict[str, MadeCall] = {}
        """Calls that the model made, by id."""
        self.changed = asyncio.Condition()

    @property
    def closed(self) -> bool:
        """Whether the client closed the connection, or is gone."""
        transport = self._request.transport
        return self._socket.closed or transport is None or transport.is_closing()

    @property
    def close_code(self) -> int | None:
        """Close code of the connection; None while it is open."""
        return self._socket.close_code

    async def record(self, message: dict[str, Any]) -> None:
        """Record a message of the client."""
        async with self.changed:
            self.received.append(message)
            self.received_at.append(time.monotonic())
            self.changed.notify_all()

    def of_type(self, name: str) -> list[dict[str, Any]]:
        """Messages of one type that the client sent."""
        raise NotImplementedError

    async def until(self, name: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait for `count` messages of a type."""
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.of_type(name)) >= count)
        return self.of_type(name)
