"""Pages that web-search fetches, and addresses that it never connects to."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Self

import pytest

from fairlead_mcp.http.dial import Address, Resolved
from fairlead_servers.fetching import Fetcher, FetchFailed
from fairlead_servers.limited_process import ProcessSlots
from fairlead_servers.page import Page
from fairlead_servers.web_search.index import FileIndex
from fairlead_servers.web_search.page_text import PageUnreadable, extract_text, shorten
from fairlead_servers.web_search.reading import extract_in_child

ANSWERS: Mapping[str, bytes] = {
    "/page": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello",
    "/inside": b"HTTP/1.1 302 Found\r\nLocation: http://inside.example/\r\nContent-Length: 0\r\n\r\n",
    "/metadata": b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n",
    "/file": b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n",
    "/loop": b"HTTP/1.1 302 Found\r\nLocation: /loop\r\nContent-Length: 0\r\n\r\n",
    "/once": b"HTTP/1.1 301 Moved\r\nLocation: /page\r\nContent-Length: 0\r\n\r\n",
    "/nowhere": b"HTTP/1.1 301 Moved\r\nLocation: http://[bad\r\nContent-Length: 0\r\n\r\n",
    "/to%20umlauts": "HTTP/1.1 301 Moved\r\nLocation: /über?q=ä\r\nContent-Length: 0\r\n\r\n".encode(),
    "/%C3%BCber?q=%C3%A4": b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nhigh",
    "/gzip": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx",
    "/large": b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * 100_000,
    "/broken": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx",
    "/silent": b"",
}
NAMES: Mapping[str, str] = {
    "web.example": "127.0.0.77",
    "inside.example": "10.1.2.3",
    "six.example": "::ffff:192.168.0.1",
    "own.example": "127.0.0.1",
    "nat.example": "64:ff9b::a00:1",
    "unique.example": "fd12::1",
}


async def resolve(host: str, port: int) -> list[Address]:
    name = host.removesuffix(".")
    address = NAMES.get(name, name)
    if address.endswith(".invalid"):
        raise OSError("no such name")
    return Resolved([(address, port)])


class Web:
    """A server at web.example. Its address is the only one on this machine that is allowed."""

    async def __aenter__(self) -> Self:
        self._stack = AsyncExitStack()
        self._serving: list[asyncio.Task[None]] = []
        server = await asyncio.start_server(self._serve, "127.0.0.77", 0)
        self._stack.push_async_callback(server.wait_closed)
        self._stack.callback(server.close)
        self.base = f"http://web.example:{server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
        await asyncio.gather(*self._serving)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.append(task)
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        answer = ANSWERS[head.split(" ")[1]]
        if not answer:
            await reader.read()
        writer.write(answer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async def fetch(self, path: str, timeout_s: float = 10.0) -> Page:
        fetcher = Fetcher(allowed=["127.0.0.77"], most_bytes=50_000, timeout_s=timeout_s, resolve=resolve)
        return await fetcher.fetch(path if "://" in path else self.base + path)


async def test_a_page_is_fetched_also_after_a_redirect() -> None:
    async with Web() as web:
        page = await web.fetch("/once")
        assert (page.status, page.body, page.url, page.cut) == (200, b"hello", f"{web.base}/page", False)
        assert (await web.fetch("/large")).cut


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/nowhere", "redirects to 'http://[bad', which is not a URL"),
        ("http://127。0。0。1/", "an address of this machine"),
        ("http://ü" + "x" * 70 + ".example/", "not an http or https URL"),
        ("/inside", "inside.example leads to an address inside the cluster"),
        ("/metadata", "link-local"),
        ("/file", "not an http or https URL"),
        ("/loop", "redirects more than 5 times"),
        ("/gzip", "has the content encoding"),
        ("/broken", "lost: "),
        ("http://inside.example/", "inside"),
        ("http://six.example/", "inside"),
        ("http://nat.example/", "inside"),
        ("http://unique.example/", "inside"),
        ("http://own.example/", "an address of this machine"),
        ("http://127.0.0.1:1/", "an address of this machine"),
        ("http://[::1]/", "an address of this machine"),
        ("http://0.0.0.0/", "an address of this machine"),
        ("http://2130706433/", "inside the cluster"),
        ("http://router/", "inside the cluster"),
        ("http://demo.team.svc/", "Service of namespace team"),
        ("http://nobody.invalid/", "does not resolve"),
        ("http://user:secret@web.example/", "credentials"),
        ("ftp://web.example/", "not an http or https URL"),
        ("http://web.example/\r\nX: y", "not an http or https URL"),
        ("http://web.example:99999/", "not an http or https URL"),
    ],
)
async def test_addresses_outside_of_the_public_web_are_refused_by_a_sentence(path: str, why: str) -> None:
    async with Web() as web:
        with pytest.raises(FetchFailed) as caught:
            await web.fetch(path)
    assert why in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("path", ["/über?q=ä", "/%C3%BCber?q=ä#part", "/to%20umlauts"])
async def test_an_address_in_other_scripts_is_asked_for_in_ascii(path: str) -> None:
    async with Web() as web:
        assert (await web.fetch(path)).body == b"high"


async def test_a_server_that_says_nothing_is_given_up() -> None:
    async with Web() as web:
        with pytest.raises(FetchFailed, match=r"did not respond within 0\.3 s"):
            await web.fetch("/silent", timeout_s=0.3)


def page(body: str | bytes, kind: str = "text/html", charset: str | None = None, *, cut: bool = False) -> Page:
    return Page("http://web.example/", 200, kind, charset, body.encode() if isinstance(body, str) else body, cut)


def test_a_page_is_read_without_its_menus_and_scripts() -> None:
    story = " ".join(f"Sentence {number} tells of a ship at sea." for number in range(30))
    title, text = extract_text(
        page(
            f"<html><head><title>Ships</title><script>alert(1)</script></head><body><nav><a href=/>Home</a></nav>"
            f"<article><h1>Ships</h1><p>{story}</p></article><footer>Imprint</footer></body></html>"
        )
    )
    assert title == "Ships"
    assert "Sentence 29" in text
    assert "alert" not in text
    assert "Home" not in text


def test_pages_without_text_are_refused_and_plain_text_is_as_it_is() -> None:
    assert extract_text(page("a  b\n<c>", "text/plain")) == ("", "a  b\n<c>")
    with pytest.raises(PageUnreadable, match="image/png, which has no readable text"):
        extract_text(page("x", "image/png"))
    with pytest.raises(PageUnreadable, match="has no readable text"):
        extract_text(page("<html><body><script>x</script></body></html>"))


@pytest.mark.parametrize(
    ("body", "kind", "charset", "text"),
    [
        ("größer".encode("windows-1252"), "text/plain", "ISO-8859-1", "größer"),
        ("大きい".encode("shift_jis"), "text/plain", "x-sjis", "大きい"),
        ("größer".encode(), "text/plain", None, "größer"),
        ("größer".encode("windows-1252"), "text/plain", None, "größer"),
        ("größer".encode("windows-1252"), "text/plain", "no-such-label", "größer"),
        (b"\xef\xbb\xbf" + "größer".encode(), "text/plain", "koi8-r", "größer"),
        ("<?xml version='1.0' encoding='koi8-r'?><a>мир</a>".encode("koi8-r"), "text/xml", None, "мир"),
        (b'<meta charset="utf-16">gr\xc3\xb6\xc3\x9fer', "application/xml", None, "größer"),
        (b'<meta charset="koi8-r">gr\xc3\xb6\xc3\x9fer', "text/plain", None, "größer"),
    ],
)
def test_a_page_is_decoded_by_the_encodings_of_the_web(body: bytes, kind: str, charset: str | None, text: str) -> None:
    assert text in extract_text(page(body, kind, charset))[1]


@pytest.mark.parametrize(
    "charset",
    ["unicode_escape", "raw_unicode_escape", "punycode", "idna", "utf_7", "utf-7", "rot13", "hex", "zlib", "undefined"],
)
def test_a_codec_of_python_is_not_an_encoding_of_the_web(charset: str) -> None:
    assert extract_text(page(r"\x41+AGE-b", "text/plain", charset)) == ("", r"\x41+AGE-b")


def test_a_page_that_is_cut_within_a_character_is_still_utf_8() -> None:
    assert extract_text(page("größer".encode()[:5], "text/plain", cut=True)) == ("", "grö\N{REPLACEMENT CHARACTER}")
    declared = (
        b"<html><head><meta http-equiv=Content-Type content='text/html; charset=windows-1251'></head><body><article>"
    )
    assert "мир" in extract_text(page(declared + ("мир " * 100).encode("windows-1251")))[1]


async def test_a_page_made_to_be_read_slowly_is_given_up() -> None:
    story = " ".join(f"Sentence {number} tells of a ship at sea." for number in range(30))
    html = f"<html><body><article><p>{story}</p></article></body></html>"
    async with ProcessSlots(wait_s=60).slot() as slot:
        assert await extract_in_child(page(html), slot, 100_000, 60) == ("", story, False)
        assert await extract_in_child(page(html), slot, 45, 60) == ("", story[:43], True)
        with pytest.raises(PageUnreadable, match="has no readable text"):
            await extract_in_child(page("<html></html>"), slot, 100, 60)
        with pytest.raises(PageUnreadable, match=r"cannot be read: its reader takes longer than 0\.5 s"):
            await extract_in_child(page("x<br>" * 400_000), slot, 100, 0.5)


def test_a_text_is_cut_at_a_word_within_its_budget() -> None:
    assert shorten("short", 100) == ("short", False)
    text, cut = shorten("word " * 100, 52)
    assert (len(text) <= 52, text.endswith("word"), cut) == (True, True, True)


def test_files_are_searched_by_words_and_found_again_when_they_change(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Anchors\nAn anchor holds a ship.")
    (tmp_path / "b.txt").write_text("Nothing of the kind.")
    (tmp_path / "link.md").symlink_to("/etc/passwd")
    index = FileIndex(tmp_path)
    (hit,) = index.search('anchor" OR ( *', 5)
    assert (hit.title, hit.url) == ("Anchors", "index:a.md")
    (tmp_path / "c.md").write_text("# Kinds of anchors\nMany.")
    assert {hit.url for hit in index.search("anchors", 5)} == {"index:a.md", "index:c.md"}
    assert index.search("***", 5) == []
    assert index.page("index:link.md") is None
    assert index.page("index:../a.md") is None
