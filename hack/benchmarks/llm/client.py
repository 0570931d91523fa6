"""Clients of a chat API that check each answer and time it: a program on raw asyncio.

    python client.py '{"port": 8080, "path": "/v1/chat/completions", "key": "", "model": "bench-53-0", "stream": true,
                       "connections": 1, "requests": 100, "warmup": 10, "events": 53, "spread": 0}'

Prints `START` when the warm-up is over, and a JSON object at the end: `requests`, `seconds`, `first` (seconds to the
first text of each stream, or to a whole answer), `delays` (of each chunk, from its sending), `error`. `spread`: seconds
over which the connections begin.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from typing import Any

import uvloop

_MARK = re.compile(rb"t(\d{9,})t")
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_KEPT = 200_000
"""Maximum number of stored values of one kind."""


class Figures:
    """Results of all connections."""

    def __init__(self, parameters: dict[str, Any]) -> None:
        self.parameters = parameters
        self.done = 0
        self.first: list[float] = []
        self.delays: list[float] = []
        self.error = ""
        self.began = 0.0
        self.over = asyncio.Event()
        self.left = parameters["warmup"] + parameters["requests"]
        if not parameters["warmup"]:
            self.start()

    def start(self) -> None:
        """Begin counting, after the warm-up."""
        self.began = time.monotonic()
        self.first.clear()
        self.delays.clear()
        print("START", flush=True)

    def finished(self, first: float) -> None:
        """Count a complete answer."""
        self.done += 1
        if len(self.first) < _KEPT:
            self.first.append(first)
        if self.done == self.parameters["warmup"]:
            self.start()
        if self.done == self.parameters["warmup"] + self.parameters["requests"]:
            self.over.set()

    def fail(self, why: str) -> None:
        """Record a wrong answer."""
        self.error = self.error or why[:500]
        self.over.set()


class Connection(asyncio.Protocol):
    """One connection, which sends the next request after each answer."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures
        parameters = figures.parameters
        body = json.dumps(
            {"model": parameters["model"], "messages": [{"role": "user", "content": "Say something."}]}
            | ({"stream": True} if parameters["stream"] else {})
        ).encode()
        self._request = (
            f"POST {parameters['path']} HTTP/1.1\r\nhost: 127.0.0.1:{parameters['port']}\r\n"
            f"authorization: Bearer {parameters['key']}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        ).encode() + body
        self._stream = parameters["stream"]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment] # of a stream
        self.ask()

    def ask(self) -> None:
        """Send one request, if any are left."""
        if self._figures.left <= 0:
            return
        self._figures.left -= 1
        self._tail = b""
        self._size = 0
        self._events = 0
        self._whole = b""
        self._length = -1
        self._first = 0.0
        self._began = time.monotonic()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        if not self._size and not data.startswith(b"HTTP/1.1 200"):
            self._figures.fail(data.decode(errors="replace"))
            return
        self._size += len(data)
        if self._stream:
            self._take_events(data, now)
        else:
            self._take_whole(data, now)

    def _take_events(self, data: bytes, now: float) -> None:
        tail = self._tail + data
        end = 0
        for mark in _MARK.finditer(tail):
            if not self._events:
                self._first = now - self._began
            self._events += 1
            end = mark.end()
            if len(self._figures.delays) < _KEPT:
                self._figures.delays.append(now - int(mark[1]) / 1e9)
        self._tail = tail[end:][-64:]
        if self._tail.endswith(b"0\r\n\r\n"):
            if self._events != self._figures.parameters["events"] or b"[DONE]" not in self._tail:
                self._figures.fail(f"{self._events} events, and an end of {self._tail!r}")
                return
            self._figures.finished(self._first)
            self.ask()

    def _take_whole(self, data: bytes, now: float) -> None:
        self._whole += data
        head, end, body = self._whole.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if end and (length is None or len(body) >= int(length[1])):
            if b"word word" not in body:
                self._figures.fail(f"an answer of {body[:200]!r}")
                return
            self._figures.finished(now - self._began)
            self.ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._figures.over.is_set():
            self._figures.fail(f"a connection was closed: {exc}")


async def main() -> None:
    """Run the load that the command line describes."""
    parameters = json.loads(sys.argv[1])
    figures = Figures(parameters)
    loop = asyncio.get_running_loop()
    opened = []
    for _ in range(parameters["connections"]):
        opened.append((await loop.create_connection(lambda: Connection(figures), "127.0.0.1", parameters["port"]))[0])
        if parameters["spread"]:
            await asyncio.sleep(parameters["spread"] / parameters["connections"])
    await figures.over.wait()
    seconds = time.monotonic() - figures.began
    for transport in opened:
        transport.close()
    answer = {"requests": parameters["requests"], "seconds": seconds, "first": figures.first, "delays": figures.delays}
    print(json.dumps(answer | {"error": figures.error}), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
