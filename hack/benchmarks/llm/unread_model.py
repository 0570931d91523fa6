"""Model that streams without end, as fast as it is read, behind four APIs: a program on raw asyncio.

    python unread_model.py PORT MOST

Each answer ends after MOST bytes, far more than sockets hold. `GET /` answers with the number of streams that wait for
their reader, and with the bytes of all streams that were written.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

import uvloop

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_TEXT = " word"
_SEND_BUFFER = 16 << 10
"""Send buffer of a socket in bytes; small, so that the model soon waits for its readers."""
_BATCH = 64
"""Events per write."""


def _event(name: str, **members: Any) -> bytes:
    line = f"event: {name}\n" if name else ""
    return f"{line}data: {json.dumps({'type': name, **members} if name else members)}\n\n".encode()


def _chat(delta: Mapping[str, str]) -> bytes:
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return _event("", **head, choices=[{"index": 0, "delta": delta, "finish_reason": None}])


_ITEM = {"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []}
_PART = {"type": "output_text", "text": "", "annotations": []}
_AT = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
_RESPONSE = {"id": "resp_1", "object": "response", "created_at": 1, "status": "in_progress", "model": "m", "output": []}
_MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {}}
BEGIN: dict[str, bytes] = {
    "chat/completions": _chat({"role": "assistant", "content": ""}),
    "responses": _event("response.created", response=_RESPONSE, sequence_number=0)
    + _event("response.output_item.added", item=_ITEM, output_index=0, sequence_number=1)
    + _event("response.content_part.added", **_AT, part=_PART, sequence_number=2),
    "messages": _event("message_start", message=_MESSAGE)
    + _event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
    "streamGenerateContent": b"",
}
MORE: dict[str, bytes] = {
    "chat/completions": _chat({"content": _TEXT}),
    "responses": _event("response.output_text.delta", **_AT, delta=_TEXT, sequence_number=3),
    "messages": _event("content_block_delta", index=0, delta={"type": "text_delta", "text": _TEXT}),
    "streamGenerateContent": _event("", candidates=[{"content": {"role": "model", "parts": [{"text": _TEXT}]}}]),
}


class Connection(asyncio.Protocol):
    """One connection with one stream."""

    waiting: ClassVar[set[Connection]] = set()
    written: ClassVar[int] = 0
    most: ClassVar[int] = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment] # of a stream
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        self._loop = asyncio.get_running_loop()
        self._got = b""
        self._sent = 0
        self._more = b""
        self._paused = False

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, end, body = self._got.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not end or (length is not None and len(body) < int(length[1])):
            return
        self._got = b""
        if head.startswith(b"GET"):
            told = b"%d %d" % (len(self.waiting), Connection.written)
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(told), told))
            return
        path = head.split(b" ", 2)[1].decode()
        family = next(name for name in BEGIN if name in path)
        self._transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        self._write(BEGIN[family])
        self._more = MORE[family]
        self._send()

    def _write(self, events: bytes) -> None:
        if events:
            Connection.written += len(events)
            self._sent += len(events)
            self._transport.write(b"%x\r\n%b\r\n" % (len(events), events))

    def _send(self) -> None:
        if self._paused or not self._more or self._transport.is_closing():
            return
        if self._sent > self.most:
            self._more = b""
            self._transport.write(b"0\r\n\r\n")
            return
        for _ in range(_BATCH):
            self._write(self._more)
        self._loop.call_soon(self._send)

    def pause_writing(self) -> None:
        self._paused = True
        self.waiting.add(self)

    def resume_writing(self) -> None:
        self._paused = False
        self.waiting.discard(self)
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._more = b""
        self.waiting.discard(self)


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    Connection.most = int(sys.argv[2])
    uvloop.run(_serve(int(sys.argv[1])))
