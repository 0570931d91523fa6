"""Speech model that answers each frame of audio with one of 40 ms, as OpenAI Realtime or Gemini Live by the path: a
program.

    python provider.py PORT

`event_id` of a frame, or its `mimeType`, is the time of its sending by the machine's monotonic clock, in nanoseconds;
that of the answer is `UP-SENT`: nanoseconds on the way up, and the time of its own sending. A `response.create`, or a
`clientContent`, calls the tool that was declared first, with ARGUMENTS; the answer ends behind its result.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time
from typing import Any

import uvloop
from aiohttp import WSMsgType, web

_APPEND = b'{"type":"input_audio_buffer.append","event_id":"'
_DELTA = b'{"type":"response.output_audio.delta","event_id":"%d-%d","audio":"'
_INPUT = b'{"realtimeInput":{"audio":{"mimeType":"'
_OUTPUT = b'{"serverContent":{"modelTurn":{"parts":[{"inlineData":{"mimeType":"%d-%d","data":"%s"}}]}}}'
_AUDIO = base64.b64encode(bytes(range(240)) * 8)
"""40 ms of PCM at 24 kHz. Gemini Live receives 16 kHz and sends 24 kHz."""
ARGUMENTS = {"text": "what was said"}
"""Arguments of every call, which the tool `echo` of the benchmark requires."""


class Session:
    """One session."""

    def __init__(self, socket: web.WebSocketResponse[bool]) -> None:
        self._socket = socket
        self._tools: list[str] = []
        self._calls = 0

    async def run(self) -> None:
        await self.send(type="session.created", session={"type": "realtime", "tools": []})
        while (message := await self._socket.receive()).type is WSMsgType.TEXT:
            payload: bytes = message.data
            if payload.startswith(_APPEND):
                now = time.monotonic_ns()
                end = payload.index(b'"', len(_APPEND))
                head = _DELTA % (now - int(payload[len(_APPEND) : end]), time.monotonic_ns())
                await self._socket.send_frame(head + payload[end + len(b'","audio":"') :], WSMsgType.TEXT)
            else:
                await self._event(json.loads(payload))

    async def _event(self, event: dict[str, object]) -> None:
        session = event.get("session")
        if isinstance(session, dict):
            self._tools = [tool["name"] for tool in session.get("tools", self._tools)]
            await self.send(type="session.updated", session=session)
        elif event["type"] == "conversation.item.create":
            await self.send(type="conversation.item.added", previous_item_id=None, item=event["item"])
        elif event["type"] == "response.create":
            await self.send(type="response.created", response={"id": "resp", "status": "in_progress"})
            self._calls += 1
            output = []
            if self._calls % 2:
                call = {"id": f"item_{self._calls}", "type": "function_call", "call_id": f"call_{self._calls}"}
                output = [{**call, "name": self._tools[0], "arguments": json.dumps(ARGUMENTS), "status": "completed"}]
                await self.send(type="response.output_item.added", response_id="resp", item=output[0])
                await self.send(type="response.output_item.done", response_id="resp", item=output[0])
            status = {"id": "resp", "status": "completed", "output": output}
            await self.send(type="response.done", response=status)

    async def send(self, **event: object) -> None:
        await self._socket.send_frame(json.dumps(event, separators=(",", ":")).encode(), WSMsgType.TEXT)


class LiveSession(Session):
    """One session of Gemini Live."""

    async def run(self) -> None:
        while (message := await self._socket.receive()).type in (WSMsgType.TEXT, WSMsgType.BINARY):
            payload: bytes = message.data
            if payload.startswith(_INPUT):
                now = time.monotonic_ns()
                spoken = payload[len(_INPUT) : payload.index(b'"', len(_INPUT))]
                answer = _OUTPUT % (now - int(spoken), time.monotonic_ns(), _AUDIO)
                await self._socket.send_frame(answer, WSMsgType.BINARY)
            else:
                await self._answer(json.loads(payload))

    async def _answer(self, message: dict[str, Any]) -> None:
        if "setup" in message:
            self._tools = [
                each["name"] for tool in message["setup"].get("tools", ()) for each in tool["functionDeclarations"]
            ]
            await self.send(setupComplete={})
        elif "clientContent" in message:
            self._calls += 1
            call = {"id": f"call_{self._calls}", "name": self._tools[0], "args": ARGUMENTS}
            await self.send(toolCall={"functionCalls": [call]})
        elif "toolResponse" in message:
            await self.send(serverContent={"turnComplete": True})


async def answer(request: web.BaseRequest) -> web.StreamResponse:
    """Serve one session."""
    socket = web.WebSocketResponse(compress=False, max_msg_size=0, decode_text=False)
    await socket.prepare(request)
    await (LiveSession if request.path.startswith("/ws/") else Session)(socket).run()
    return socket


async def serve(port: int) -> None:
    """Serve until the process ends."""
    runner = web.ServerRunner(web.Server(answer, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        loop.run(serve(int(sys.argv[1])))
