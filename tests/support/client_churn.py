"""Clients of a gateway that connect in every way and leave in every way, for tests and for `hack/bench soak`.

As a program, it runs clients in another network namespace (see `elsewhere`), and reads commands from standard input.
`come COUNT SOURCE` connects COUNT clients from the address SOURCE, and prints `here` when all have their answers. `go`
closes their connections, and prints `gone`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from gatewayworld import Ask, calling, legacy, modern

WAYS: Final = ("asks", "calls", "listens", "listens to a session", "waits for a call", "says half of it")
REFUSED: Final = "says no host"
ANSWER_SECONDS: Final = 30.0


@dataclass
class Guest:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def leave(self) -> None:
        """Close the connection cleanly (FIN)."""
        self.writer.close()

    def slam(self) -> None:
        """Close the connection with unread data (RST)."""
        connection = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.close()


async def connect_guest(host: str, port: int, way: str, *, source: str | None = None) -> Guest:
    """Connect a client that behaves in one of `WAYS`. Returns after the expected answer has arrived."""
    local = (source, 0) if source is not None else None
    reader, writer = await asyncio.open_connection(host, port, local_addr=local)
    guest = Guest(reader, writer)
    authority = f"{host}:{port}"

    async def ask(request: Ask) -> bytes:
        writer.write(request.data(authority))
        async with asyncio.timeout(ANSWER_SECONDS):
            return await reader.readuntil(b"\r\n\r\n")

    with contextlib.ExitStack() as given_up:
        given_up.callback(writer.close)
        if way == "asks":
            await ask(modern("tools/list"))
        elif way == "calls":
            await ask(calling("demo__add", {"a": 1}))
        elif way == "listens":
            await ask(modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
        elif way == "listens to a session":
            await _listen(ask, reader)
        elif way == REFUSED:
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            async with asyncio.timeout(ANSWER_SECONDS):
                await reader.readuntil(b"\r\n\r\n")
        elif way == "waits for a call":
            writer.write(calling("demo__slow").data(authority))
        else:
            data = modern("tools/list").data(authority)
            writer.write(data[: len(data) // 2])
        given_up.pop_all()
    return guest


async def _listen(ask: Callable[[Ask], Awaitable[bytes]], reader: asyncio.StreamReader) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "guest", "version": "1"}}
    head = (await ask(legacy("initialize", hello))).decode().lower()
    fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
    await reader.readexactly(int(fields["content-length"]))
    session = {"mcp-session-id": fields["mcp-session-id"], "accept": "text/event-stream"}
    await ask(Ask(None, {**session, "mcp-protocol-version": "2025-11-25"}, b"", "GET"))


async def crowd(host: str, port: int, count: int, *, source: str | None = None) -> list[Guest]:
    """Connect `count` guests, using all ways in turn."""
    ways = [WAYS[number % len(WAYS)] for number in range(count)]
    return list(await asyncio.gather(*(connect_guest(host, port, way, source=source) for way in ways)))


async def _obey(host: str, port: int) -> None:
    guests: list[Guest] = []
    while line := await asyncio.to_thread(sys.stdin.readline):
        word, *rest = line.split()
        if word == "come":
            guests = await crowd(host, port, int(rest[0]), source=rest[1])
            print("here", flush=True)
        else:
            for guest in guests:
                guest.slam()
            guests = []
            print("gone", flush=True)


if __name__ == "__main__":
    asyncio.run(_obey(sys.argv[1], int(sys.argv[2])))
