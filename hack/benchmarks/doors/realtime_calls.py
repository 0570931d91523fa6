"""Sessions of OpenAI Realtime that ask one thing after the other: a program that speaks as mcpload does.

    python realtime_calls.py '{"url": "http://127.0.0.1:8080/v1/realtime?model=m", "kind": "frame"|"call",
                               "sessions": 64, "seconds": 2.5, "warmup": 0.7}'

A `frame` is 40 ms of audio, over when a frame came back; a `call` is an answer of the model that calls a tool, over
when the answer behind its result is. The provider is that of `speech/provider.py`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any, Final

import aiohttp
import uvloop

from doors.figures import figures
from speech.client import WIRES

WIRE: Final = WIRES["realtime"]
FAILED: Final = b'{"type":"error"'


class Session:
    """One session."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse[bool], kind: str, times: list[float]) -> None:
        self._socket = socket
        self._spoken = WIRE.spoken if kind == "frame" else WIRE.question
        self._end, self._ends = (WIRE.echoed, 1) if kind == "frame" else (WIRE.done, WIRE.answers)
        self._times = times
        self.over = False
        self.wrong = ""

    async def run(self) -> None:
        """One question after the other."""
        while not self.over and not self.wrong:
            began = time.perf_counter()
            text = self._spoken.replace("TIME", str(time.monotonic_ns()), 1)
            await self._socket.send_frame(text.encode(), aiohttp.WSMsgType.TEXT)
            left = self._ends
            while left and not self.wrong:
                left -= await self._ended()
            self._times.append((time.perf_counter() - began) * 1e6)

    async def _ended(self) -> bool:
        message = await self._socket.receive()
        if message.type is not aiohttp.WSMsgType.TEXT or message.data.startswith(FAILED):
            self.wrong = repr(message)[:600]
        return not self.wrong and message.data.startswith(self._end)


async def main(parameters: dict[str, Any]) -> None:
    """Print the figures of what was asked between START and the end."""
    times: list[float] = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        sockets = [
            await http.ws_connect(parameters["url"], compress=0, max_msg_size=0, decode_text=False)
            for _ in range(parameters["sessions"])
        ]
        sessions = [Session(socket, parameters["kind"], times) for socket in sockets]
        await asyncio.sleep(1)  # sessions get their tools
        running = [asyncio.create_task(session.run()) for session in sessions]
        await asyncio.sleep(parameters["warmup"])
        before, began = len(times), time.perf_counter()
        print("START", flush=True)
        await asyncio.sleep(parameters["seconds"])
        wrong = next((session.wrong for session in sessions if session.wrong), "")
        print(json.dumps(figures(times[before:], time.perf_counter() - began, wrong)), flush=True)
        for session in sessions:
            session.over = True
        await asyncio.gather(*running)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(json.loads(sys.argv[1])))
