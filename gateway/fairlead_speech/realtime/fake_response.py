"""One response of the scripted OpenAI Realtime: its events in the order of the real server."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any, Protocol

from fairlead_speech.scripted import MadeCall, SpokenCall, SpokenReply, audio_of


class Conversation(Protocol):
    """Session that a response is of."""

    calls: set[str]
    made: dict[str, MadeCall]
    config: dict[str, Any]
    last_item: str | None

    def ident(self, prefix: str) -> str:
        """A new id."""
        ...

    async def send(self, kind: str, **members: Any) -> None:
        """Send an event."""
        ...

    async def add(self, item: dict[str, Any], *, done: bool = True) -> None:
        """Append an item to the conversation."""
        ...


class ScriptedResponse:
    """A response in progress."""

    def __init__(self, session: Conversation, reply: SpokenReply, asked: dict[str, Any], *, beside: bool) -> None:
        """`beside`: out of the conversation."""
        self._session = session
        self._reply = reply
        self._beside = beside
        self._output: list[dict[str, Any]] = []
        self._id = session.ident("resp")
        self._metadata = asked.get("metadata")
        self._task: asyncio.Task[None] | None = None

    def start(self, over: Callable[[ScriptedResponse], None]) -> None:
        """Begin; `over` is called before the last event."""
        self._over = over
        self._task = asyncio.create_task(self._run())

    async def cancel(self, reason: str, *, silent: bool = False) -> None:
        """End it early. `silent`: nobody hears of it."""
        assert self._task is not None, "it was started"
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._over(self)
        if not silent:
            await self._done("cancelled", {"type": "cancelled", "reason": reason})

    async def _run(self) -> None:
        await self._session.send("response.created", response=self._response("in_progress", None))
        if self._reply.text:
            await self._say(self._reply.text)
        for call in self._reply.calls:
            await self._call(call)
        self._over(self)
        await self._done("completed", None)

    async def _done(self, status: str, details: dict[str, Any] | None) -> None:
        usage = {
            "total_tokens": 30,
            "input_tokens": 20,
            "output_tokens": 10,
            "input_token_details": {"cached_tokens": 4, "text_tokens": 8, "audio_tokens": 12},
        }
        await self._session.send("response.done", response={**self._response(status, details), "usage": usage})

    def _response(self, status: str, details: dict[str, Any] | None) -> dict[str, Any]:
        return {
            "object": "realtime.response",
            "id": self._id,
            "status": status,
            "status_details": details,
            "output": [*self._output],
            "conversation_id": None if self._beside else "conv_1",
            "metadata": self._metadata,
            "usage": None,
        }

    async def _say(self, text: str) -> None:
        send, item = self._session.send, {"id": self._session.ident("item"), "type": "message", "role": "assistant"}
        place = {"response_id": self._id, "output_index": len(self._output)}
        part = {**place, "item_id": item["id"], "content_index": 0}
        started = {**item, "status": "in_progress", "content": []}
        await send("response.output_item.added", **place, item=started)
        before = self._session.last_item
        if not self._beside:
            await self._session.add(started, done=False)
        await send("response.content_part.added", **part, part={"type": "audio", "transcript": ""})
        for number, (word, audio) in enumerate(zip(text.split(), audio_of(text), strict=True)):
            await send("response.output_audio_transcript.delta", **part, delta=f"{word} ")
            await send("response.output_audio.delta", **part, delta=base64.b64encode(audio).decode())
            if number == 0 and self._reply.held is not None:
                await self._reply.held.wait()
            await asyncio.sleep(0)
        await send("response.output_audio.done", **part)
        await send("response.output_audio_transcript.done", **part, transcript=text)
        await send("response.content_part.done", **part, part={"type": "audio", "transcript": text})
        whole = {**item, "status": "completed", "content": [{"type": "output_audio", "transcript": text}]}
        self._output.append(whole)
        await send("response.output_item.done", **place, item=whole)
        if not self._beside:
            await send("conversation.item.done", previous_item_id=before, item=whole)

    async def _call(self, call: SpokenCall) -> None:
        session, arguments = self._session, json.dumps(call.arguments)
        item = {
            "id": session.ident("item"),
            "type": "function_call",
            "call_id": call.id or session.ident("call"),
            "name": call.name,
        }
        place = {"response_id": self._id, "output_index": len(self._output)}
        started = {**item, "status": "in_progress", "arguments": ""}
        await session.send("response.output_item.added", **place, item=started)
        before = session.last_item
        await session.add(started, done=False)
        within = {**place, "item_id": item["id"], "call_id": item["call_id"]}
        for start in range(0, len(arguments), 8):
            await session.send("response.function_call_arguments.delta", **within, delta=arguments[start : start + 8])
        await session.send("response.function_call_arguments.done", **within, name=call.name, arguments=arguments)
        whole = {**item, "status": "completed", "arguments": arguments}
        session.calls.add(str(item["call_id"]))
        session.made[str(item["call_id"])] = MadeCall.now(call.name)
        self._output.append(whole)
        await session.send("response.output_item.done", **place, item=whole)
        await session.send("conversation.item.done", previous_item_id=before, item=whole)
