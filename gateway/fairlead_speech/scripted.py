"""Common parts of the scripted speech servers for tests: scripted replies, and a connection that records messages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

NOTHING_LEFT: Final = "I have nothing more to say."


class SpokenCall(msgspec.Struct, frozen=True):
    """Tool call in a scripted reply."""

    name: str
    arguments: Mapping[str, Any] = {}
    id: str = ""
    """Id of the call; if empty, the server makes an id."""


class SpokenReply(msgspec.Struct, frozen=True):
    """Scripted answer of the model: speech, followed by tool calls."""

    text: str = ""
    """Words that are sent as transcript and as audio; empty: none."""
    calls: tuple[SpokenCall, ...] = ()
    held: asyncio.Event | None = None
    """Event for which the server waits after the answer's first piece of audio; None: no wait."""
    begins: asyncio.Event | None = None
    """Event for which an OpenAI Realtime server waits before it sends `response.created`; None: no wait."""


class SpeechScript:
    """Replies of the model, and transcripts of the user's turns of speech, both in order."""

    def __init__(self, *replies: SpokenReply, transcripts: tuple[str, ...] = ()) -> None:
        self._replies = [*replies]
        self._transcripts = [*transcripts]

    def next_reply(self) -> SpokenReply:
        """Remove and return the next answer."""
        return self._replies.pop(0) if self._replies else SpokenReply(NOTHING_LEFT)

    def next_transcript(self) -> str:
        """Remove and return the transcript of the next turn of speech."""
        return self._transcripts.pop(0) if self._transcripts else "(unclear)"


def audio_of(text: str) -> list[bytes]:
    """Make PCM for a text: 40 ms at 24 kHz for each word, without silence."""
    return [bytes([1 + sum(word.encode()) % 255]) * 1920 for word in text.split()]


class MadeCall(msgspec.Struct, frozen=True):
    """Call that a scripted model has made."""

    name: str
    at: float
    """Time of the call, in seconds of the monotonic clock."""

    @classmethod
    def now(cls, name: str) -> MadeCall:
        """Record a call at the current time."""
        return cls(name, time.monotonic())


class ScriptedConnection:
    """Base class of scripted sessions, which records the messages of its client."""

    def __init__(self, socket: web.WebSocketResponse, request: web.BaseRequest) -> None:
        self._socket = socket
        self._request = request
        self.headers = {name.lower(): value for name, value in request.headers.items()}
        self.query = dict(request.query)
        self.received: list[dict[str, Any]] = []
        """Messages of the client, in order."""
        self.received_at: list[float] = []
        """Arrival time of each message, in seconds of the monotonic clock."""
        self.made: dict[str, MadeCall] = {}
        """Calls that the model made, by id."""
        self.changed = asyncio.Condition()

    @property
    def closed(self) -> bool:
        """Whether the connection is closed or lost."""
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
        """Wait until the client has sent `count` messages of a type. Returns all messages of the type."""
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.of_type(name)) >= count)
        return self.of_type(name)
