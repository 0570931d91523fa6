"""A site whose pages are made to hold up who reads them, at two addresses of this machine."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final

EVIL, GOOD = "127.0.0.77", "127.0.0.78"
SIZE: Final = 2_000_000
"""Bytes of a page that web-search reads by default."""
STORY: Final = "The ferryman knows each of the seven sandbanks by the sound of the water. " * 20
CODECS: Final = ("punycode", "idna", "utf_7", "unicode_escape", "zlib", "bz2", "undefined", "base64")
_HTML: Final = "Content-Type: text/html; charset=utf-8\r\n"
PAGES: Final[Mapping[str, tuple[str, bytes]]] = {
    "/story": (_HTML, f"<html><body><article><p>{STORY}</p></article></body></html>".encode()),
    "/slow": (_HTML, b"<html><body>" + b"<div>" * 200 + b"<p>x</p>" * (SIZE // 8)),
    "/memory": (_HTML, b"<html><body><article><p>" + b"<span>a</span>" * (SIZE // 14)),
    "/deep": (_HTML, b"<div>" * (SIZE // 5)),
    "/links": (_HTML, b"<html><body><article>" + b"<a href=a>b</a>" * (SIZE // 15)),
    "/gzip": (f"{_HTML}Content-Encoding: gzip\r\n", zlib.compress(bytes(500_000_000 // 8), wbits=31)),
    "/pdf": ("Content-Type: application/pdf\r\n", b"%PDF-1.7\n" + b"[" * SIZE),
    **{f"/{codec}": (f"Content-Type: text/plain; charset={codec}\r\n", b"-" + b"9" * SIZE) for codec in CODECS},
}
"""Path to the headers and the body of an answer."""


class EvilWeb:
    """The site; `asked` has the paths of its requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.port = 0

    def url(self, path: str, host: str = EVIL) -> str:
        """Address of a page."""
        return f"http://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = head.split(" ")[1]
            self.asked.append(path)
            headers, body = PAGES[path]
            writer.write(f"HTTP/1.1 200 OK\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            await writer.drain()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@asynccontextmanager
async def evil_web() -> AsyncIterator[EvilWeb]:
    """The site, at one port of both addresses."""
    web = EvilWeb()
    first = await asyncio.start_server(web.serve, EVIL, 0)
    web.port = first.sockets[0].getsockname()[1]
    second = await asyncio.start_server(web.serve, GOOD, web.port)
    async with first, second:
        yield web
