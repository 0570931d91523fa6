"""Scripted servers of a cascaded engine over HTTP, for tests: speech to text, a model, and text to speech.

The servers refuse requests that real servers refuse: forms without a WAV file, speech in another format than PCM, and
requests that the scripted Chat Completions API refuses.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from aiohttp import BodyPartReader, web

from fairlead_formats.providers.openai_chat.fake import openai_error
from fairlead_formats.providers.openai_chat.fake_rules import fault as request_fault
from fairlead_speech.scripted import MadeCall, SpeechScript, SpokenReply, audio_of
from fairlead_tools.validation.schema_draft import draft_error

STT, LLM, TTS = "/v1/audio/transcriptions", "/v1/chat/completions", "/v1/audio/speech"
_WAV_HEADER_BYTES: Final = 44
"""Size of the header of a WAV file in bytes."""


class ScriptedFault(msgspec.Struct, frozen=True):
    """Fault that a scripted server produces for one request in place of an answer."""

    status: int = 200
    """HTTP status of the answer. If it is not 200, the body is an error."""
    body: bytes | None = None
    """Body of the answer; None: empty."""
    hangs: bool = False
    """Whether the request never gets an answer."""
    cut: bool = False
    """Whether the connection is aborted during the answer."""


class ScriptedCascade:
    """Scripted servers for speech to text, a model and text to speech, on one port."""

    def __init__(self, script: SpeechScript, key: str = "", delay: float = 0.0) -> None:
        """`key`: API key that requests must present; empty: none. `delay`: seconds before each answer."""
        self.script = script
        self._key = key
        self.delay = delay
        self.transcription_requests: list[tuple[bytes, Mapping[str, str]]] = []
        """Audio of each transcription request, with the other fields of its form."""
        self.requests: list[dict[str, Any]] = []
        """Bodies of the requests to the model."""
        self.requested_at: list[float] = []
        """Arrival times of `requests`, in seconds of the monotonic clock."""
        self.made: dict[str, MadeCall] = {}
        """Calls that the model made, by id."""
        self.spoken: list[dict[str, Any]] = []
        """Bodies of the requests for speech."""
        self.faults: dict[str, list[ScriptedFault | None]] = {STT: [], LLM: [], TTS: []}
        """Faults of the next requests, by path. An element None stands for a request without a fault."""
        self.gone = 0
        """Number of requests whose client disconnected before the answer was complete."""
        self.changed = asyncio.Condition()
        self._held: asyncio.Event | None = None
        self._numbers = itertools.count(1)
        self.port = 0

    @contextlib.asynccontextmanager
    async def serving(self, host: str = "127.0.0.1") -> AsyncIterator[ScriptedCascade]:
        """Serve on a free port of a local address. The number of the port is in `port`."""
        runner = web.ServerRunner(web.Server(self._answer, handler_cancellation=True), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, host, 0)
        await site.start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()

    async def until(self, path: str, count: int) -> None:
        """Wait until `count` requests to a path have arrived."""
        requests: Mapping[str, Sequence[object]] = {
            STT: self.transcription_requests,
            LLM: self.requests,
            TTS: self.spoken,
        }
        async with self.changed:
            await self.changed.wait_for(lambda: len(requests[path]) >= count)

    async def until_gone(self, count: int = 1) -> None:
        """Wait until `count` clients have disconnected before their answer was complete."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.gone >= count)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._key and request.headers.get("authorization") != f"Bearer {self._key}":
            return _error(401, "bad key")
        handler = {STT: self._transcribe, LLM: self._complete_chat, TTS: self._speak}.get(request.path)
        if handler is None:
            return _error(404, "not found")
        try:
            return await handler(request)
        except (asyncio.CancelledError, ConnectionError):
            async with self.changed:
                self.gone += 1
                self.changed.notify_all()
            raise

    async def _record_request(self, path: str, requests: list[Any], recorded_request: Any) -> ScriptedFault | None:
        """Record a request. Returns the fault that it gets; None if it gets an answer."""
        async with self.changed:
            requests.append(recorded_request)
            self.changed.notify_all()
        await asyncio.sleep(self.delay)
        faults = self.faults[path]
        fault = faults.pop(0) if faults else None
        if fault is not None and fault.hangs:
            await asyncio.Event().wait()
        return fault

    async def _transcribe(self, request: web.BaseRequest) -> web.StreamResponse:
        content, fields = await _form(request)
        if content is None or not fields.get("model"):
            return _error(400, "file and model are required")
        if not content.startswith(b"RIFF") or content[8:16] != b"WAVEfmt ":
            return _error(400, "the file is not a WAV file")
        fault = await self._record_request(STT, self.transcription_requests, (content[_WAV_HEADER_BYTES:], fields))
        if fault is not None:
            return await _send_faulty(request, fault, b'{"text": "half')
        return web.json_response({"text": self.script.next_transcript()})

    async def _complete_chat(self, request: web.BaseRequest) -> web.StreamResponse:
        body = msgspec.json.decode(await request.read(), type=dict[str, Any])
        broken_rule = request_fault(body, draft_error)
        if broken_rule is not None:
            status, error = openai_error(broken_rule)
            return web.Response(body=error, status=status, content_type="application/json")
        self.requested_at.append(time.monotonic())
        fault = await self._record_request(LLM, self.requests, body)
        if fault is not None:
            return await _send_faulty(request, fault, _chunk({"content": "Half an "}))
        reply = self.script.next_reply()
        self._held = reply.held
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for piece in self._chunks(reply):
            await response.write(piece)
            await asyncio.sleep(0)
        await response.write_eof()
        return response

    def _chunks(self, reply: SpokenReply) -> list[bytes]:
        words = reply.text.split() or [reply.text] * bool(reply.text)  # the text may be only white space
        chunks = [
            _chunk({"content": f"{word} " if number < len(words) else word}) for number, word in enumerate(words, 1)
        ]
        for number, call in enumerate(reply.calls):
            arguments = json.dumps(call.arguments)
            function = {"name": call.name, "arguments": ""}
            ident = call.id or f"call_{next(self._numbers):06}"
            self.made[ident] = MadeCall.now(call.name)
            chunks.append(_chunk({"tool_calls": [{"index": number, "id": ident, "function": function}]}))
            chunks += (
                _chunk({"tool_calls": [{"index": number, "function": {"arguments": arguments[start : start + 8]}}]})
                for start in range(0, len(arguments), 8)
            )
        usage = {
            "prompt_tokens": 20,
            "completion_tokens": 10,
            "total_tokens": 30,
            "prompt_tokens_details": {"cached_tokens": 4},
        }
        chunks.append(_chunk({}, "tool_calls" if reply.calls else "stop"))
        return [*chunks, _event({"choices": [], "usage": usage}), b"data: [DONE]\n\n"]

    async def _speak(self, request: web.BaseRequest) -> web.StreamResponse:
        body = msgspec.json.decode(await request.read(), type=dict[str, Any])
        if body.get("response_format") != "pcm" or not body.get("input") or not body.get("voice"):
            return _error(400, "input, voice and the response_format pcm are required")
        held = self._held
        fault = await self._record_request(TTS, self.spoken, body)
        if fault is not None:
            return await _send_faulty(request, fault, b"\1" * 960)
        response = web.StreamResponse(headers={"content-type": "audio/pcm"})
        await response.prepare(request)
        for number, audio in enumerate(audio_of(body["input"])):
            await response.write(audio)
            if number == 0 and held is not None:
                await held.wait()
        await response.write_eof()
        return response


async def _form(request: web.BaseRequest) -> tuple[bytes | None, dict[str, str]]:
    """Read a multipart form: the content of its field `file`, and its text fields, which are UTF-8 by definition."""
    content, fields = None, {}
    if request.content_type == "multipart/form-data":
        async for part in await request.multipart():
            if isinstance(part, BodyPartReader):
                data = bytes(await part.read())
                if part.name == "file" and part.filename:
                    content = data
                elif part.name:
                    fields[part.name] = data.decode("utf-8", "replace")
    return content, fields


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message, "type": "invalid_request_error"}}, status=status)


async def _send_faulty(request: web.BaseRequest, fault: ScriptedFault, partial_body: bytes) -> web.StreamResponse:
    if fault.status != 200:
        return _error(fault.status, "scripted error")
    if not fault.cut:
        body = fault.body or b""
        content_type = "text/event-stream" if body.startswith(b"data:") else "application/json"
        return web.Response(body=body, content_type=content_type)
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    await response.write(partial_body)
    if request.transport is not None:
        request.transport.abort()
    return response


def _chunk(delta: Mapping[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return _event({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice]})


def _event(members: Mapping[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(members) + b"\n\n"
