"""Model that answers at once or at a steady pace, behind OpenAI's chat API: a program on raw asyncio, so that it is no
bottleneck.

    python model.py PORT

The model's name says what comes: `bench-EVENTS-GAP`, a stream of EVENTS chunks GAP milliseconds apart. Each chunk's
text holds the time of its sending on the monotonic clock of the machine, `t123456789t` in nanoseconds.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time

import uvloop

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_MODEL = re.compile(rb'"model": *"[^"]*bench-(\d+)-(\d+)"')
_STREAM = re.compile(rb'"stream": *true')
_HEAD = (
    b'{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"bench","choices":[{"index":0,'
)
_WHOLE = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"bench","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"%b"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":9,"completion_tokens":53,"total_tokens":62}}'
)
_USAGE = (
    b'{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"bench","choices":[],'
    b'"usage":{"prompt_tokens":9,"completion_tokens":53,"total_tokens":62}}'
)


def _chunk(event: bytes) -> bytes:
    data = b"data: " + event + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


def _delta(text: bytes) -> bytes:
    return _chunk(_HEAD + b'"delta":{"content":"' + text + b'"},"finish_reason":null}]}')


class Connection(asyncio.Protocol):
    """One connection; its requests come one after the other."""

    def __init__(self) -> None:
        self._got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment] # of a stream
        self._loop = asyncio.get_running_loop()

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, end, body = self._got.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not end or (length is not None and len(body) < int(length[1])):
            return
        self._got = b""
        if head.startswith(b"GET"):
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            return
        model = _MODEL.search(body)
        events, gap = (int(model[1]), int(model[2])) if model is not None else (1, 0)
        if _STREAM.search(body) is None:
            whole = _WHOLE % (b"word " * events)
            kind = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            self._transport.write(kind % len(whole) + whole)
            return
        self._transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            + _chunk(_HEAD + b'"delta":{"role":"assistant","content":""},"finish_reason":null}]}')
        )
        self._say(events, gap / 1000, self._loop.time())

    def _say(self, left: int, gap: float, due: float) -> None:
        if self._transport.is_closing():
            return
        if not left:
            end = _chunk(_HEAD + b'"delta":{},"finish_reason":"stop"}]}') + _chunk(_USAGE) + _chunk(b"[DONE]")
            self._transport.write(end + b"0\r\n\r\n")
            return
        self._transport.write(_delta(b"t%dt " % time.monotonic_ns()))
        if gap:
            self._loop.call_at(due + gap, self._say, left - 1, gap, due + gap)
        else:
            self._loop.call_soon(self._say, left - 1, gap, due)


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
