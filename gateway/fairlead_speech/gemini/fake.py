"""Scripted Gemini Live server over WebSockets, for tests.

The server refuses what the real one refuses (`fairlead_formats.providers.gemini.live_rules`):

- The first message is a setup.
- One invalid tool makes the server refuse the whole list.
- Each call gets one result.
- The model decides which call behaviors are allowed.
- A resumption handle is valid only between two turns, and is refused while the old connection is open.
- Voice activity: samples other than zero are speech, and zeros end the speech. If the client marks its turns, audio
  between the turns is ignored.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import re
import ssl
from collections.abc import AsyncIterator
from typing import Any, Final, Protocol

import msgspec
from aiohttp import WSMsgType, web

from fairlead_formats.providers.gemini.live_rules import LIVE_RULES
from fairlead_speech.scripted import MadeCall, ScriptedConnection, SpeechScript, SpokenReply, audio_of

BLOCKING, NON_BLOCKING = "BLOCKING", "NON_BLOCKING"
_PATH_PATTERN: Final = re.compile(r"/ws/google\.ai\.generativelanguage\.v1\w*\.GenerativeService\.BidiGenerateContent")
_FUNCTION_MEMBERS: Final = frozenset(
    {"name", "description", "parameters", "parametersJsonSchema", "response", "behavior"}
)
_NAME_PATTERN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_TOOL_DEFINED_MEMBERS: Final = frozenset(
    {"parameters", "parametersJsonSchema", "parameters_json_schema", "response", "args"}
)
"""Members whose values are defined by tools. Names inside these values are therefore left unchanged."""


class RefusedByScript(Exception):
    """Message of a client that violates the protocol, for which the connection is closed with `code`."""

    def __init__(self, rule: str, /, **values: object) -> None:
        """`rule`: name of the broken rule without `live-`; `values`: for the placeholders in the rule's text."""
        broken_rule = LIVE_RULES.broken_rule(f"live-{rule}", **values)
        super().__init__(broken_rule.message)
        self.code = broken_rule.rule.status


class ScriptedLive:
    """Scripted Gemini Live server. All of its sessions take their replies from one script."""

    def __init__(self, script: SpeechScript, key: str = "", *, binary: bool = False, partials: bool = False) -> None:
        """`key`: API key that connections must present; empty: none. `binary`: send JSON in binary messages.
        `partials`: transcribe one word with each piece of speech, instead of all words at the end.
        """
        self.script = script
        self.binary = binary
        self.partials = partials
        self._key = key
        self.sessions: list[LiveScriptSession] = []
        """Sessions, one for each connection."""
        self.handles: dict[str, tuple[LiveScriptSession, int, int]] = {}
        """Sessions that can be resumed, by handle, with the number of audio messages and of contents that the handle
        covers.
        """
        self.issues_handles = True
        """Whether sessions that request resumption handles get handles."""
        self.admits = asyncio.Event()
        """Set while the server answers setups."""
        self.admits.set()
        self.port = 0
        self.numbers = itertools.count(1)

    @contextlib.asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> AsyncIterator[ScriptedLive]:
        """Serve on a free port of a local address. The number of the port is in `port`."""
        runner = web.ServerRunner(web.Server(self._answer))
        await runner.setup()
        site = web.TCPSite(runner, host, 0, ssl_context=tls)
        await site.start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            for session in self.sessions:
                session.cut()
            await runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if _PATH_PATTERN.fullmatch(request.path) is None:
            return web.json_response({"error": {"message": "not found"}}, status=404)
        if self._key and request.headers.get("x-goog-api-key") != self._key:
            return web.json_response({"error": {"message": "bad key", "code": 403}}, status=403)
        socket = web.WebSocketResponse(compress=False, max_msg_size=16 << 20)
        await socket.prepare(request)
        session = LiveScriptSession(socket, request, self)
        self.sessions.append(session)
        await session.run()
        return socket


class LiveScriptSession(ScriptedConnection):
    """Session over one connection, with all messages that it received."""

    def __init__(self, socket: web.WebSocketResponse, request: web.BaseRequest, server: ScriptedLive) -> None:
        super().__init__(socket, request)
        self.server = server
        self.setup: dict[str, Any] = {}
        self.received_audio: list[bytes] = []
        """Audio of the session, including the audio that was received over its earlier connections."""
        self.contents: list[dict[str, Any]] = []
        """Contents of the conversation that the client sent, including over the session's earlier connections."""
        self.tools: list[dict[str, Any]] = []
        self.calls: dict[str, str] = {}
        """Behaviors of calls without a result, by id."""
        self.turn: LiveTurn | None = None
        self._speaking = False
        self._has_answered = False
        """Whether the model has had a turn over this connection."""
        self._words: list[str] = []
        """Words of the user's speech that have not been transcribed yet."""

    @property
    def functions(self) -> dict[str, dict[str, Any]]:
        """Functions of the model, by name."""
        return {function["name"]: function for tool in self.tools for function in tool.get("functionDeclarations", ())}

    @property
    def tool_names(self) -> list[str]:
        """Names of the model's functions."""
        return [*self.functions]

    def of_type(self, name: str) -> list[dict[str, Any]]:
        """Values of the member `name` in all messages of the client."""
        return [message[name] for message in self.received if name in message]

    def results(self) -> list[dict[str, Any]]:
        """Results of calls that the client sent."""
        return [result for answer in self.of_type("toolResponse") for result in answer["functionResponses"]]

    async def send(self, **message: Any) -> None:
        """Send a message."""
        text = msgspec.json.encode(message)
        with contextlib.suppress(ConnectionError):
            await (self._socket.send_bytes(text) if self.server.binary else self._socket.send_str(text.decode()))

    async def close(self, code: int, reason: str) -> None:
        """Close the connection from the provider's side."""
        await self._socket.close(code=code, message=reason.encode())

    def cut(self) -> None:
        """Cut the connection without a close."""
        if self._request.transport is not None:
            self._request.transport.abort()

    async def send_handle(self, *, resumable: bool = True) -> None:
        """Send a resumption handle if the client requested handles. During a turn, the handle is empty."""
        if "sessionResumption" not in self.setup or not self.server.issues_handles:
            return
        handle = f"handle_{next(self.server.numbers)}" if resumable else ""
        if resumable:
            self.server.handles[handle] = self, len(self.received_audio), len(self.contents)
        await self.send(sessionResumptionUpdate={"newHandle": handle, "resumable": resumable})

    async def run(self) -> None:
        """Answer messages until the client disconnects."""
        try:
            async for message in self._socket:
                if message.type is not WSMsgType.TEXT and message.type is not WSMsgType.BINARY:
                    continue
                content = camel(msgspec.json.decode(message.data))
                await self.record(content)
                await self._handle(content)
        except RefusedByScript as refusal:
            await self.close(refusal.code, str(refusal))
        finally:
            if self.turn is not None:
                await self.turn.cancel()

    async def _handle(self, message: dict[str, Any]) -> None:
        if not self.setup:
            await self._on_setup(message.get("setup"))
        elif "realtimeInput" in message:
            await self._on_realtime_input(message["realtimeInput"])
        elif "clientContent" in message:
            await self._on_client_content(message["clientContent"])
        elif "toolResponse" in message:
            for response in message["toolResponse"]["functionResponses"]:
                await self._on_function_response(response)
        elif "contextUpdate" in message:
            if not self._supports_update:
                raise RefusedByScript("context-update")
            if "tools" in message["contextUpdate"]:
                self._set_tools(message["contextUpdate"]["tools"].get("tools", []))
        else:
            raise RefusedByScript("member", name=", ".join(message)[:60])

    async def _on_setup(self, setup: dict[str, Any] | None) -> None:
        if not isinstance(setup, dict):
            raise RefusedByScript("setup")
        await self.server.admits.wait()
        self.setup = setup
        if not str(setup.get("model", "")).startswith("models/gemini"):
            raise RefusedByScript("model", model=setup.get("model"))
        self._set_tools(setup.get("tools", []))
        handle = (setup.get("sessionResumption") or {}).get("handle")
        if handle:
            resumed_session, heard_count, content_count = self.server.handles.get(handle, (None, 0, 0))
            if resumed_session is None:
                raise RefusedByScript("handle")
            if not resumed_session.closed:
                raise RefusedByScript("handle-open")
            self.received_audio = resumed_session.received_audio[:heard_count]
            self.contents = resumed_session.contents[:content_count]
        await self.send(setupComplete={"sessionId": f"session_{next(self.server.numbers)}"})

    def _set_tools(self, tools: list[dict[str, Any]]) -> None:
        names: set[str] = set()
        for function in (declaration for tool in tools for declaration in tool.get("functionDeclarations", ())):
            unknown_members = sorted(set(function) - _FUNCTION_MEMBERS)
            if (
                unknown_members
                or _NAME_PATTERN.fullmatch(function.get("name", "")) is None
                or function["name"] in names
            ):
                raise RefusedByScript("function", name=function.get("name"), unknown=unknown_members)
            if function.get("behavior", self._behaviors[0]) not in self._behaviors or (
                "behavior" in function and "3.1" in self.setup["model"]
            ):
                raise RefusedByScript("behavior")
            names.add(function["name"])
        self.tools = tools

    @property
    def _supports_update(self) -> bool:
        return "3.8" in self.setup["model"]

    @property
    def _behaviors(self) -> tuple[str, ...]:
        """Behaviors of the model, the default one first."""
        model = self.setup["model"]
        if "extended-thinking" in model:
            return (NON_BLOCKING,)
        if "3.8" in model:
            return NON_BLOCKING, BLOCKING
        return (BLOCKING,) if "3.1" in model else (BLOCKING, NON_BLOCKING)

    def behavior(self, name: str) -> str:
        """Behavior of a function's calls."""
        return str(self.functions.get(name, {}).get("behavior", self._behaviors[0]))

    @property
    def _client_marks_turns(self) -> bool:
        """Whether the client marks where turns of speech begin and end."""
        detection = (self.setup.get("realtimeInputConfig") or {}).get("automaticActivityDetection") or {}
        return bool(detection.get("disabled"))

    async def _on_client_content(self, content: dict[str, Any]) -> None:
        if self._has_answered and "3.1" in self.setup["model"]:
            raise RefusedByScript("content-late")
        self.contents += content.get("turns", [])
        if content.get("turnComplete"):
            await self.begin()
        else:
            await self.interrupt(calls=False)

    async def _on_realtime_input(self, realtime_input: dict[str, Any]) -> None:
        if "text" in realtime_input:
            await self.begin()
        if "activityStart" in realtime_input or "activityEnd" in realtime_input:
            await self._on_activity(begins="activityStart" in realtime_input)
        if "audio" not in realtime_input or (self._client_marks_turns and not self._speaking):
            return
        data = realtime_input["audio"]["data"]
        audio = base64.b64decode(data, altchars=b"-_" if "-" in data or "_" in data else None)
        async with self.changed:
            self.received_audio.append(audio)
            self.changed.notify_all()
        speech = any(audio)
        if speech and not self._speaking:
            await self._begin_speech()
        if speech and self.server.partials:
            await self._hear_words(1)
        elif not speech and self._speaking and not self._client_marks_turns:
            await self._end_speech()

    async def _on_activity(self, *, begins: bool) -> None:
        if not self._client_marks_turns:
            raise RefusedByScript("activity")
        if begins and not self._speaking:
            await self._begin_speech()
        elif not begins and self._speaking:
            await self._end_speech()

    async def _begin_speech(self) -> None:
        self._speaking = True
        await self.interrupt(calls=True)
        self._words = self.server.script.next_transcript().split(" ") if "inputAudioTranscription" in self.setup else []

    async def _end_speech(self) -> None:
        self._speaking = False
        await self._hear_words(len(self._words))
        await self.begin()

    async def _hear_words(self, count: int) -> None:
        user_words, self._words = self._words[:count], self._words[count:]
        for word in user_words:
            await self.send(serverContent={"inputTranscription": {"text": f"{word} "}})

    async def begin(self) -> None:
        """Begin a turn of the model, which interrupts a turn in progress."""
        await self.interrupt(calls=False)
        self._has_answered = True
        await self.send_handle(resumable=False)
        self.turn = LiveTurn(self, self.server.script)
        self.turn.start()

    async def interrupt(self, *, calls: bool) -> None:
        """Interrupt the turn in progress. `calls`: whether the open tool calls of the turn are cancelled too."""
        turn, self.turn = self.turn, None
        if turn is None or turn.over:
            return
        await turn.cancel()
        await self.send(serverContent={"interrupted": True})
        ids = [ident for ident, behavior in self.calls.items() if behavior == BLOCKING] if calls else []
        for ident in ids:
            del self.calls[ident]
        if ids:
            await self.send(toolCallCancellation={"ids": ids})
        await self.send(serverContent={"turnComplete": True})
        await self.send_handle()

    async def _on_function_response(self, response: dict[str, Any]) -> None:
        behavior = self.calls.pop(response.get("id", ""), None)
        if behavior is None or not isinstance(response.get("response"), dict):
            raise RefusedByScript("response-without-call", id=response.get("id"))
        if behavior == BLOCKING:
            if self.turn is not None:
                self.turn.result_received.set()
            return
        scheduling = response.get("scheduling", "WHEN_IDLE")
        if scheduling == "SILENT":
            await self.send_handle()
        elif scheduling == "INTERRUPT" or self.turn is None or self.turn.over:
            await self.begin()
        else:
            self.turn.repeats = True

    async def go_away(self, seconds: int) -> None:
        """Send `goAway`: the connection is closed in `seconds`."""
        await self.send(goAway={"timeLeft": f"{seconds}s"})


def camel(value: Any) -> Any:
    """Copy JSON with member names in camel case. Values that tools define are left unchanged."""
    if isinstance(value, list):
        return [camel(element) for element in value]
    if not isinstance(value, dict):
        return value
    return {
        re.sub("_([a-z])", lambda match: match[1].upper(), name): element
        if name in _TOOL_DEFINED_MEMBERS
        else camel(element)
        for name, element in value.items()
    }


class LiveConnection(Protocol):
    """Interface of a connection to the turns of its model."""

    setup: dict[str, Any]
    calls: dict[str, str]
    made: dict[str, MadeCall]

    def behavior(self, name: str) -> str:
        """Behavior of a function's calls."""
        ...

    async def send(self, **message: Any) -> None:
        """Send a message."""
        ...

    async def send_handle(self, *, resumable: bool = True) -> None:
        """Send a handle."""
        ...


class LiveTurn:
    """Turn of the scripted model in progress."""

    def __init__(self, session: LiveConnection, script: SpeechScript) -> None:
        self._session = session
        self._script = script
        self.result_received = asyncio.Event()
        """Set when the result of a call arrives."""
        self.repeats = False
        """Whether another answer follows this turn, because the result of a call arrived during it."""
        self.over = False
        self._task: asyncio.Task[None] | None = None
        self._number = 0

    def start(self) -> None:
        """Begin the turn."""
        self._task = asyncio.create_task(self._run())

    async def cancel(self) -> None:
        """Cancel the turn."""
        self.over = True
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        session = self._session
        while await self._reply(self._script.next_reply()):
            pass
        await session.send(serverContent={"generationComplete": True})
        usage = {"promptTokenCount": 20, "responseTokenCount": 10, "totalTokenCount": 30}
        await session.send(serverContent={"turnComplete": True}, usageMetadata=usage)
        if self.repeats:
            self.repeats = False
            await self._run()
            return
        self.over = True
        await session.send_handle()

    async def _reply(self, reply: SpokenReply) -> bool:
        """Send speech and calls. Returns True if the model has to continue with the results of blocking calls."""
        session = self._session
        for number, (word, audio) in enumerate(zip(reply.text.split(), audio_of(reply.text), strict=True)):
            if "outputAudioTranscription" in session.setup:
                await session.send(serverContent={"outputTranscription": {"text": f"{word} "}})
            data = {"mimeType": "audio/pcm;rate=24000", "data": base64.b64encode(audio).decode()}
            await session.send(serverContent={"modelTurn": {"parts": [{"inlineData": data}]}})
            if number == 0 and reply.held is not None:
                await reply.held.wait()
            await asyncio.sleep(0)
        blocking_calls = []
        function_calls = []
        for call in reply.calls:
            self._number += 1
            ident = call.id or f"call_{id(self)}_{self._number}"
            behavior = session.behavior(call.name)
            session.calls[ident] = behavior
            session.made[ident] = MadeCall.now(call.name)
            blocking_calls += [ident] if behavior == "BLOCKING" else []
            function_calls.append({"id": ident, "name": call.name, "args": dict(call.arguments)})
        if function_calls:
            await session.send(toolCall={"functionCalls": function_calls})
        while not session.calls.keys().isdisjoint(blocking_calls):
            self.result_received.clear()
            await self.result_received.wait()
        return bool(blocking_calls)
