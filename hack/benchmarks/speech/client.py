"""Clients of OpenAI Realtime or Gemini Live that send a frame of audio every 40 ms and take one back: a program.

    python client.py '{"url": …, "wire": "realtime"|"live", "model": …, "sessions": …, "seconds": …, "calls": …}'

Prints START when all sessions are open, then a line of JSON: delays of frames up and down, and times of tool calls, in
milliseconds.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time
from dataclasses import dataclass
from typing import Any

import aiohttp
import uvloop

FRAME_SECONDS = 0.04
AUDIO = base64.b64encode(bytes(range(240)) * 8).decode()
"""40 ms of PCM at 24 kHz."""
LIVE_AUDIO = base64.b64encode(bytes(range(160)) * 8).decode()
"""40 ms of PCM at 16 kHz, the input format of Gemini Live."""


@dataclass(frozen=True)
class Wire:
    """Messages of one protocol."""

    first: str
    """Message that opens a session with `MODEL`; empty if none is needed."""
    spoken: str
    """Audio frame in which `TIME` is replaced by the time of sending."""
    echoed: bytes
    """Beginning of a returned frame, up to its times."""
    question: str
    """Message that makes the model call a tool."""
    done: bytes
    """Beginning of the message that ends an answer."""
    answers: int
    """Number of such messages after a question."""


WIRES = {
    "realtime": Wire(
        "",
        f'{{"type":"input_audio_buffer.append","event_id":"TIME","audio":"{AUDIO}"}}',
        b'{"type":"response.output_audio.delta","event_id":"',
        '{"type":"response.create"}',
        b'{"type":"response.done"',
        2,
    ),
    "live": Wire(
        '{"setup":{"model":"models/MODEL"}}',
        f'{{"realtimeInput":{{"audio":{{"mimeType":"TIME","data":"{LIVE_AUDIO}"}}}}}}',
        b'{"serverContent":{"modelTurn":{"parts":[{"inlineData":{"mimeType":"',
        '{"clientContent":{"turnComplete":true}}',
        b'{"serverContent":{"turnComplete"',
        1,
    ),
}


class Client:
    """One session."""

    def __init__(
        self, socket: aiohttp.ClientWebSocketResponse[bool], wire: Wire, delays: list[tuple[float, float]]
    ) -> None:
        self._socket = socket
        self._wire = wire
        self._delays = delays
        self._done = asyncio.Event()
        self.frames = 0

    async def read(self) -> None:
        echoed, kinds = self._wire.echoed, (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY)
        while (message := await self._socket.receive()).type in kinds:
            payload: bytes = message.data
            if payload.startswith(echoed):
                now = time.monotonic_ns()
                up, _, sent = payload[len(echoed) : payload.index(b'"', len(echoed))].partition(b"-")
                self._delays.append((int(up) / 1e6, (now - int(sent)) / 1e6))
                self.frames += 1
            elif payload.startswith(self._wire.done):
                self._done.set()

    async def speak(self, seconds: float, late: float) -> None:
        loop = asyncio.get_running_loop()
        following = loop.time() + late
        end = following + seconds
        while following < end:
            await asyncio.sleep(following - loop.time())
            text = self._wire.spoken.replace("TIME", str(time.monotonic_ns()), 1)
            await self._socket.send_frame(text.encode(), aiohttp.WSMsgType.TEXT)
            following += FRAME_SECONDS

    async def ask(self) -> float:
        """Milliseconds from the question to the answer after a tool call."""
        began = time.monotonic()
        await self._socket.send_str(self._wire.question)
        for _ in range(self._wire.answers):
            await self._done.wait()
            self._done.clear()
        return (time.monotonic() - began) * 1000


async def load(parameters: dict[str, Any]) -> dict[str, Any]:
    """Send audio in all sessions, then call a tool in one of them. Returns the results."""
    delays: list[tuple[float, float]] = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        sockets = [
            await http.ws_connect(parameters["url"], compress=0, max_msg_size=0, decode_text=False)
            for _ in range(parameters["sessions"])
        ]
        wire = WIRES[parameters["wire"]]
        for socket in sockets if wire.first else ():  # one by one: a gateway makes only a few tool lists at once
            await socket.send_str(wire.first.replace("MODEL", parameters["model"]))
            await socket.receive()
        clients = [Client(socket, wire, delays) for socket in sockets]
        readers = [asyncio.create_task(client.read()) for client in clients]
        await asyncio.sleep(1)  # time for the sessions to get their tools
        print("START", flush=True)
        spread = FRAME_SECONDS / len(clients)
        speaking = [client.speak(parameters["seconds"], number * spread) for number, client in enumerate(clients)]
        await asyncio.gather(*speaking)
        print("SPOKEN", flush=True)
        calls = [await clients[0].ask() for _ in range(parameters["calls"])]
        sent = sum(client.frames for client in clients)
        for socket in sockets:
            await socket.close()
        await asyncio.gather(*readers)
    return {"up": [up for up, _ in delays], "down": [down for _, down in delays], "calls": calls, "frames": sent}


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(load(json.loads(sys.argv[1])))), flush=True)
