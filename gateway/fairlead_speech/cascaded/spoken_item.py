"""One message that an engine says: its events in the order of OpenAI's server."""

from __future__ import annotations

import base64
from typing import Any, Final, Protocol

from fairlead_speech.cascaded.conversation import ConversationItem, Said
from fairlead_speech.realtime_events import Event

CHUNK: Final = 9600
"""Bytes of audio in one event: 200 ms."""


class ItemHost(Protocol):
    """Session and response that an item is of."""

    beside: bool
    """Whether it is out of the conversation."""
    output: dict[int, Event]
    """Items of the response that are whole, by `output_index`."""

    def ident(self, prefix: str) -> str:
        """A new id."""
        ...

    def place(self) -> dict[str, Any]:
        """`response_id` and `output_index` of a new item."""
        ...

    def emit(self, kind: str, **members: Any) -> None:
        """Send an event."""
        ...

    async def emit_when_room(self, kind: str, **members: Any) -> None:
        """Send an event once few bytes wait."""
        ...

    def add(self, shown: Event, *, filler: bool = False) -> tuple[ConversationItem, str | None]:
        """Append an item to the conversation; also the id of the one before."""
        ...

    def update(self, item: ConversationItem, shown: Event) -> None:
        """Have an item be another one now."""
        ...


class SpokenItem:
    """A message in progress. It is open from its making on."""

    def __init__(self, host: ItemHost, *, filler: bool, text_only: bool) -> None:
        self._host = host
        self._text_only = text_only
        self._text = ""
        self.closed = False
        self._shown: Event = {
            "id": host.ident("item"),
            "object": "realtime.item",
            "type": "message",
            "role": "assistant",
            "status": "in_progress",
            "content": [],
        }
        self._place = host.place()
        self._part = {**self._place, "item_id": self._shown["id"], "content_index": 0}
        host.emit("response.output_item.added", **self._place, item=self._shown)
        self.item, self._before = host.add(self._shown, filler=filler)
        if not host.beside:
            host.emit("conversation.item.added", previous_item_id=self._before, item=self._shown)
        host.emit("response.content_part.added", **self._part, part=self._written("", part=True))

    async def write(self, text: str) -> None:
        """Say the transcript of what follows, or all there is where it is text alone."""
        self._text += text
        self.item.said.append(Said(text))
        kind = "response.output_text.delta" if self._text_only else "response.output_audio_transcript.delta"
        await self._host.emit_when_room(kind, **self._part, delta=text)

    async def sound(self, audio: bytes) -> None:
        """Say audio of the text that was written last."""
        for start in range(0, len(audio), CHUNK):
            piece = audio[start : start + CHUNK]
            self.item.said[-1].audio += len(piece)
            delta = base64.b64encode(piece).decode()
            await self._host.emit_when_room("response.output_audio.delta", **self._part, delta=delta)

    def close(self, status: str = "completed") -> None:
        """End it."""
        if self.closed:
            return
        self.closed = True
        host, text = self._host, self._text.strip()
        if self._text_only:
            host.emit("response.output_text.done", **self._part, text=text)
        else:
            host.emit("response.output_audio.done", **self._part)
            host.emit("response.output_audio_transcript.done", **self._part, transcript=text)
        host.emit("response.content_part.done", **self._part, part=self._written(text, part=True))
        whole = {**self._shown, "status": status, "content": [self._written(text)]}
        host.update(self.item, whole)
        host.output[self._place["output_index"]] = whole
        host.emit("response.output_item.done", **self._place, item=whole)
        if not host.beside:
            host.emit("conversation.item.done", previous_item_id=self._before, item=whole)

    def _written(self, text: str, *, part: bool = False) -> Event:
        prefix = "" if part else "output_"
        if self._text_only:
            return {"type": f"{prefix}text", "text": text}
        return {"type": f"{prefix}audio", "transcript": text}
