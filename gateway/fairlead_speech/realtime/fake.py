"""Scripted OpenAI Realtime server (general availability) over WebSockets, for tests.

The server refuses what the real one refuses (`fairlead_formats.providers.openai_responses.realtime_rules`):

- One response runs at a time.
- One invalid member makes the server refuse the whole `session.update`.
- An output must belong to a call that the model made.
- Voice activity: samples other than zero are speech, zeros end it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Protocol

import msgspec
from aiohttp import WSMsgType, web

from fairlead_formats.providers.openai_responses.definition_rules import realtime_function_faults
from fairlead_formats.providers.openai_responses.realtime_rules import REALTIME_RULES
from fairlead_formats.request_rules.rule import BrokenRule
from fairlead_speech.scripted import MadeCall, ScriptedConnection, SpeechScript, SpokenCall, SpokenReply, audio_of

_PROVIDER_TOOLS: Final = frozenset({"mcp"})
_TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MODALITIES: Final = (["audio"], ["text"])
_LIFETIME_S: Final = 3600
_encode: Final = msgspec.json.encode


class RefusedEvent(Exception):
    """Event of a client that violates a rule of the API, and is answered with an `error`."""

    def __init__(self, rule: str | BrokenRule, /, **values: object) -> None:
        """`rule`: the broken rule, or its name without `realtime-` with `values` for the placeholders in its text."""
        self.broken_rule = (
            rule if isinstance(rule, BrokenRule) else REALTIME_RULES.broken_rule(f"realtime-{rule}", **values)
        )
        super().__init__(self.broken_rule.message)


class ScriptedRealtime:
    """Scripted OpenAI Realtime server. All of its sessions take their replies from one script."""

    def __init__(self, script: SpeechScript, key: str = "", refuses: frozenset[str] = frozenset()) -> None:
        """`key`: API key that connections must present; empty: none. `refuses`: members of `audio.input` that a client
        may not set.
        """
        self.script = script
        self._refuses = refuses
        self._key = key
        self.sessions: list[RealtimeScriptSession] = []
        self.port = 0

    @contextlib.asynccontextmanager
    async def serving(self, host: str = "127.0.0.1") -> AsyncIterator[ScriptedRealtime]:
        """Serve on a free port of a local address. The number of the port is in `port`."""
        runner = web.ServerRunner(web.Server(self._answer))
        await runner.setup()
        site = web.TCPSite(runner, host, 0)
        await site.start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            for session in self.sessions:
                session.cut()
            await runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._key and request.headers.get("authorization") != f"Bearer {self._key}":
            return web.json_response({"error": {"message": "bad key", "code": "invalid_api_key"}}, status=401)
        if request.path == "/v1/realtime/client_secrets":
            session = msgspec.json.decode(await request.read())["session"]
            return web.json_response({"value": "ek_scripted", "expires_at": _LIFETIME_S, "session": session})
        if request.path != "/v1/realtime":
            return web.json_response({"error": {"message": "not found"}}, status=404)
        socket = web.WebSocketResponse(compress=False, max_msg_size=16 << 20)
        await socket.prepare(request)
        session = RealtimeScriptSession(socket, request, self.script, self._refuses)
        self.sessions.append(session)
        await session.run()
        return socket


class RealtimeScriptSession(ScriptedConnection):
    """Session of one client, with all events that it received."""

    def __init__(
        self, socket: web.WebSocketResponse, request: web.BaseRequest, script: SpeechScript, refuses: frozenset[str]
    ) -> None:
        super().__init__(socket, request)
        self._refuses = refuses
        self.script = script
        self.config: dict[str, Any] = {
            "type": "realtime",
            "object": "realtime.session",
            "id": "sess_1",
            "model": self.query.get("model", ""),
            "output_modalities": ["audio"],
            "instructions": "",
            "tools": [],
            "tool_choice": "auto",
            "expires_at": int(time.time()) + _LIFETIME_S,
            "audio": {
                "input": {
                    "format": {"type": "audio/pcm", "rate": 24000},
                    "transcription": None,
                    "turn_detection": {"type": "server_vad", "create_response": True, "interrupt_response": True},
                },
                "output": {"format": {"type": "audio/pcm", "rate": 24000}, "voice": "alloy"},
            },
        }
        self.calls: set[str] = set()
        """Ids of calls without an output."""
        self.last_item: str | None = None
        self._response: ScriptedResponse | None = None
        self._speaking = False
        self._has_buffered_audio = False
        """Whether audio was appended since the last commit."""
        self._has_spoken = False
        """Whether the model has spoken."""
        self._numbers = itertools.count(1)

    @property
    def tool_names(self) -> list[str]:
        """Names of the model's tools."""
        return [tool.get("name", tool["type"]) for tool in self.config["tools"]]

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        """Events of one type that the client sent."""
        return [event for event in self.received if event.get("type") == kind]

    def new_id(self, prefix: str) -> str:
        """Make a new id with a prefix."""
        return f"{prefix}_{next(self._numbers):06}"

    async def send(self, kind: str, **members: Any) -> None:
        """Send an event."""
        with contextlib.suppress(ConnectionError):
            await self._socket.send_str(_encode({"type": kind, "event_id": self.new_id("event"), **members}).decode())

    async def close(self, code: int, reason: str) -> None:
        """Close the session from the provider's side."""
        await self._socket.close(code=code, message=reason.encode())

    def cut(self) -> None:
        """Cut the connection without a close."""
        if self._request.transport is not None:
            self._request.transport.abort()

    async def run(self) -> None:
        """Answer events until the client disconnects."""
        await self.send("session.created", session=self.config)
        async for message in self._socket:
            if message.type is not WSMsgType.TEXT:
                continue
            event = msgspec.json.decode(message.data)
            await self.record(event)
            try:
                await self._handle(event)
            except RefusedEvent as refusal:
                rule = refusal.broken_rule.rule
                error = {
                    "type": rule.type,
                    "code": rule.code,
                    "message": str(refusal),
                    "param": refusal.broken_rule.param,
                }
                await self.send("error", error={**error, "event_id": event.get("event_id")})
        if self._response is not None:
            await self._response.cancel("client_cancelled", silent=True)

    async def _handle(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind == "session.update":
            await self._update_session(event.get("session") or {})
        elif kind == "input_audio_buffer.append":
            self._has_buffered_audio = True
            await self._append_audio(
                base64.b64decode(event["audio"], altchars=b"-_" if "-" in event["audio"] else None)
            )
        elif kind == "input_audio_buffer.commit":
            if not self._has_buffered_audio:
                raise RefusedEvent("empty-buffer")
            await self._commit()
        elif kind == "conversation.item.create":
            await self._create_item(event["item"])
        elif kind == "conversation.item.delete":
            await self.send("conversation.item.deleted", item_id=event["item_id"])
        elif kind == "response.create":
            await self._create_response(event.get("response") or {})
        elif kind == "response.cancel":
            if self._response is None:
                raise RefusedEvent("cancel")
            await self._response.cancel("client_cancelled")
        else:
            raise RefusedEvent("event-type", name=kind)

    async def _update_session(self, session: dict[str, Any]) -> None:
        if session.get("type") != "realtime":
            raise RefusedEvent("session-type")
        if session.get("model", self.config["model"]) != self.config["model"]:
            raise RefusedEvent("model")
        _check_tools(session)
        _check_choice(session.get("tool_choice"), session.get("tools", self.config["tools"]))
        audio = session.pop("audio", {})
        for name in self._refuses & audio.get("input", {}).keys():
            raise RefusedEvent("input-setting", name=name)
        voice = self.config["audio"]["output"]["voice"]
        if self._has_spoken and audio.get("output", {}).get("voice", voice) != voice:
            raise RefusedEvent("voice")
        for direction in ("input", "output"):
            self.config["audio"][direction].update(audio.get(direction, {}))
        self.config.update(session)
        await self.send("session.updated", session=self.config)

    async def _append_audio(self, audio: bytes) -> None:
        detection = self.config["audio"]["input"]["turn_detection"]
        if detection is None:
            return
        speech = any(audio)
        if speech and not self._speaking:
            self._speaking = True
            await self.send("input_audio_buffer.speech_started", audio_start_ms=0, item_id=self.new_id("item"))
            if self._response is not None and detection.get("interrupt_response", True):
                await self._response.cancel("turn_detected")
        elif not speech and self._speaking:
            self._speaking = False
            await self.send("input_audio_buffer.speech_stopped", audio_end_ms=40, item_id=self.new_id("item"))
            await self._commit()
            if detection.get("create_response", True):
                await self._create_response({})

    async def _commit(self) -> None:
        item = {"id": self.new_id("item"), "type": "message", "role": "user", "status": "completed"}
        previous_id = self.last_item
        self._has_buffered_audio = False
        await self.send("input_audio_buffer.committed", previous_item_id=previous_id, item_id=item["id"])
        await self.add({**item, "content": [{"type": "input_audio", "transcript": None}]})
        if self.config["audio"]["input"].get("transcription"):
            kind, transcript = "conversation.item.input_audio_transcription", self.script.next_transcript()
            position = {"item_id": item["id"], "content_index": 0}
            for word in transcript.split(" "):
                await self.send(f"{kind}.delta", **position, delta=f"{word} ")
            await self.send(f"{kind}.completed", **position, transcript=transcript)

    async def _create_item(self, item: dict[str, Any]) -> None:
        if item["type"] == "function_call_output":
            if item["call_id"] not in self.calls:
                raise RefusedEvent("output-without-call")
            if not isinstance(item.get("output"), str):
                raise RefusedEvent("output-text")
            self.calls.discard(item["call_id"])
        await self.add({"id": self.new_id("item"), "status": "completed", **item})

    async def add(self, item: dict[str, Any], *, done: bool = True) -> None:
        """Append an item to the conversation."""
        previous_id, self.last_item = self.last_item, item["id"]
        await self.send("conversation.item.added", previous_item_id=previous_id, item=item)
        if done:
            await self.send("conversation.item.done", previous_item_id=previous_id, item=item)

    async def _create_response(self, request: dict[str, Any]) -> None:
        out_of_band = request.get("conversation") == "none"
        if self._response is not None and not out_of_band:
            raise RefusedEvent("active-response")
        _check_tools(request)
        _check_choice(request.get("tool_choice"), request.get("tools", self.config["tools"]))
        response = ScriptedResponse(self, self.script.next_reply(), request, out_of_band=out_of_band)
        if not out_of_band:
            self._response = response
        response.start(self._on_done)

    def _on_done(self, response: ScriptedResponse) -> None:
        self._has_spoken = self._has_spoken or response.spoken
        if self._response is response:
            self._response = None


def _check_tools(settings: dict[str, Any]) -> None:
    """Raise RefusedEvent if tools or modalities in the settings of a session or response break a rule of the API."""
    modalities = settings.get("output_modalities")
    if modalities is not None and modalities not in _MODALITIES:
        raise RefusedEvent("modalities", modalities=modalities)
    for index, tool in enumerate(settings.get("tools") or ()):
        if tool.get("type") in _PROVIDER_TOOLS:
            continue
        for fault in realtime_function_faults(tool, index):
            raise RefusedEvent(fault)
        if not _TOOL_NAME.fullmatch(str(tool.get("name"))):
            raise RefusedEvent("tool-name", index=index, name=str(tool.get("name")))


def _check_choice(choice: Any, tools: list[dict[str, Any]]) -> None:
    """Raise RefusedEvent if `tool_choice` names a function that is not offered."""
    if not isinstance(choice, dict) or choice.get("type") != "function":
        return
    if choice.get("name") not in [tool.get("name") for tool in tools]:
        raise RefusedEvent("tool-choice", name=choice.get("name"))


class ScriptedConversation(Protocol):
    """Interface of a session to its responses."""

    calls: set[str]
    made: dict[str, MadeCall]
    config: dict[str, Any]
    last_item: str | None

    def new_id(self, prefix: str) -> str:
        """Make a new id with a prefix."""
        ...

    async def send(self, kind: str, **members: Any) -> None:
        """Send an event."""
        ...

    async def add(self, item: dict[str, Any], *, done: bool = True) -> None:
        """Append an item to the conversation."""
        ...


class ScriptedResponse:
    """Response of the scripted model in progress."""

    def __init__(
        self, session: ScriptedConversation, reply: SpokenReply, request: dict[str, Any], *, out_of_band: bool
    ) -> None:
        """`out_of_band`: whether the response is kept out of the conversation."""
        self._session = session
        self._reply = reply
        self._out_of_band = out_of_band
        self._output: list[dict[str, Any]] = []
        self._id = session.new_id("resp")
        self._metadata = request.get("metadata")
        self.spoken = False
        """Whether audio was sent."""
        self._task: asyncio.Task[None] | None = None

    def start(self, on_done: Callable[[ScriptedResponse], None]) -> None:
        """Begin the response. `on_done` is called before the event `response.done`."""
        self._on_done = on_done
        self._task = asyncio.create_task(self._run())

    async def cancel(self, reason: str, *, silent: bool = False) -> None:
        """End the response early. `silent`: send no `response.done`."""
        assert self._task is not None, "it was started"
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._on_done(self)
        if not silent:
            await self._end_response("cancelled", {"type": "cancelled", "reason": reason})

    async def _run(self) -> None:
        if self._reply.begins is not None:
            await self._reply.begins.wait()
        await self._session.send("response.created", response=self._response("in_progress", None))
        if self._reply.text:
            await self._speak(self._reply.text)
        for call in self._reply.calls:
            await self._make_call(call)
        self._on_done(self)
        await self._end_response("completed", None)

    async def _end_response(self, status: str, details: dict[str, Any] | None) -> None:
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
            "conversation_id": None if self._out_of_band else "conv_1",
            "metadata": self._metadata,
            "usage": None,
        }

    async def _speak(self, text: str) -> None:
        send, item = self._session.send, {"id": self._session.new_id("item"), "type": "message", "role": "assistant"}
        position = {"response_id": self._id, "output_index": len(self._output)}
        part_position = {**position, "item_id": item["id"], "content_index": 0}
        started_item = {**item, "status": "in_progress", "content": []}
        await send("response.output_item.added", **position, item=started_item)
        previous_id = self._session.last_item
        if not self._out_of_band:
            await self._session.add(started_item, done=False)
        await send("response.content_part.added", **part_position, part={"type": "audio", "transcript": ""})
        for number, (word, audio) in enumerate(zip(text.split(), audio_of(text), strict=True)):
            await send("response.output_audio_transcript.delta", **part_position, delta=f"{word} ")
            self.spoken = True
            await send("response.output_audio.delta", **part_position, delta=base64.b64encode(audio).decode())
            if number == 0 and self._reply.held is not None:
                await self._reply.held.wait()
            await asyncio.sleep(0)
        await send("response.output_audio.done", **part_position)
        await send("response.output_audio_transcript.done", **part_position, transcript=text)
        await send("response.content_part.done", **part_position, part={"type": "audio", "transcript": text})
        completed_item = {**item, "status": "completed", "content": [{"type": "output_audio", "transcript": text}]}
        self._output.append(completed_item)
        await send("response.output_item.done", **position, item=completed_item)
        if not self._out_of_band:
            await send("conversation.item.done", previous_item_id=previous_id, item=completed_item)

    async def _make_call(self, call: SpokenCall) -> None:
        session, arguments = self._session, json.dumps(call.arguments)
        item = {
            "id": session.new_id("item"),
            "type": "function_call",
            "call_id": call.id or session.new_id("call"),
            "name": call.name,
        }
        position = {"response_id": self._id, "output_index": len(self._output)}
        started_item = {**item, "status": "in_progress", "arguments": ""}
        await session.send("response.output_item.added", **position, item=started_item)
        previous_id = session.last_item
        await session.add(started_item, done=False)
        call_position = {**position, "item_id": item["id"], "call_id": item["call_id"]}
        for start in range(0, len(arguments), 8):
            await session.send(
                "response.function_call_arguments.delta", **call_position, delta=arguments[start : start + 8]
            )
        await session.send(
            "response.function_call_arguments.done", **call_position, name=call.name, arguments=arguments
        )
        completed_item = {**item, "status": "completed", "arguments": arguments}
        session.calls.add(str(item["call_id"]))
        session.made[str(item["call_id"])] = MadeCall.now(call.name)
        self._output.append(completed_item)
        await session.send("response.output_item.done", **position, item=completed_item)
        await session.send("conversation.item.done", previous_item_id=previous_id, item=completed_item)
