"""Malicious pages that should block web-search delay neither searches, nor other pages, nor the server's end."""

from __future__ import annotations

import asyncio
import signal
import sys
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest
from mcp import Client

from ports import free_port
from servedtools import served, structured_content, text_of
from upprocess import children_of, command_of
from waiting import eventually

EVIL = "127.0.0.77"
GOOD = "127.0.0.78"
SIZE: Final = 2_000_000
"""Maximum number of bytes of a page that web-search reads by default."""
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
"""Headers and body of the answer, by path."""


class EvilWeb:
    """The malicious site. `asked`: paths of the requests."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.port = 0

    def url(self, path: str, host: str = EVIL) -> str:
        """Address of a page."""
        return f"http://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = head.split(" ")[1]
            self.paths.append(path)
            headers, body = PAGES[path]
            writer.write(f"HTTP/1.1 200 OK\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            await writer.drain()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@asynccontextmanager
async def evil_web() -> AsyncIterator[EvilWeb]:
    """Serve the site at the same port of both addresses."""
    web = EvilWeb()
    first = await asyncio.start_server(web.serve, EVIL, 0)
    web.port = first.sockets[0].getsockname()[1]
    second = await asyncio.start_server(web.serve, GOOD, web.port)
    async with first, second:
        yield web


pytestmark = pytest.mark.timeout(120)
ALLOWED = {"allow": f"{EVIL},{GOOD}"}


async def fetch(client: Client, web: EvilWeb, path: str, host: str = EVIL) -> Any:
    return await client.call_tool("fetch_page", {"url": web.url(path, host)}, read_timeout_seconds=100)


async def test_pages_that_name_codecs_of_python_are_text_like_others(tmp_path: Path) -> None:
    async with evil_web() as web, served("web-search", "http", tmp_path, ALLOWED) as client:
        pages = await asyncio.gather(*(fetch(client, web, f"/{codec}") for codec in CODECS))
        assert {structured_content(page)["text"][:5] for page in pages} == {"-9999"}
        assert {structured_content(page)["cut"] for page in pages} == {True}
        assert structured_content(await client.call_tool("search", {"query": "bowline"}))["results"]


async def test_six_pages_that_take_long_hold_up_neither_a_search_nor_a_page_of_another_host(tmp_path: Path) -> None:
    settings = {**ALLOWED, "timeout_s": "60"}
    async with evil_web() as web, served("web-search", "http", tmp_path, settings) as client:
        slow = [asyncio.create_task(fetch(client, web, "/slow")) for _ in range(6)]
        await eventually(lambda: len(web.paths) >= 2)

        assert structured_content(await client.call_tool("search", {"query": "bowline"}))["results"]
        assert structured_content(await fetch(client, web, "/story", GOOD))["text"] == STORY.strip()
        assert web.paths == ["/slow", "/slow", "/story"], "calls that wait hold no bytes"
        assert not any(call.done() for call in slow)
        for call in slow:
            call.cancel()
        await asyncio.gather(*slow, return_exceptions=True)


async def test_a_page_that_is_compressed_or_no_text_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with evil_web() as web, served("web-search", "http", tmp_path, ALLOWED) as client:
        assert "has the content encoding 'gzip', which was not requested." in text_of(await fetch(client, web, "/gzip"))
        assert "has the type application/pdf, which has no readable text." in text_of(await fetch(client, web, "/pdf"))
        assert "has no readable text" in text_of(await fetch(client, web, "/deep"))


@pytest.mark.parametrize("path", ["/slow", "/punycode"])
async def test_a_server_that_reads_evil_pages_ends_by_sigterm_and_its_readers_with_it(
    path: str, tmp_path: Path
) -> None:
    port = free_port()
    words = ["-m", "fairlead_cli", "serve", "web-search", "--transport", "http", "--port", str(port)]
    words += ["--data", str(tmp_path), "--set", f"allow={EVIL}", "--set", "timeout_s=60"]
    process = await asyncio.create_subprocess_exec(sys.executable, *words)
    try:
        async with evil_web() as web:
            calls = [asyncio.create_task(_alone(port, web, path)) for _ in range(3)]
            await eventually(lambda: len(web.paths) >= 2 and (path != "/slow" or len(children_of(process.pid)) == 2))
            readers = children_of(process.pid)
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
            assert [command_of(reader) for reader in readers] == [""] * len(readers)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _alone(port: int, web: EvilWeb, path: str) -> None:
    """Fetch with a client of its own, after the server has begun to listen."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.1)
            continue
        writer.close()
        break
    async with Client(f"http://127.0.0.1:{port}/mcp") as client:
        await fetch(client, web, path)
