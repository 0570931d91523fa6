"""Readable text of a page: what a person would read, without menus, scripts and markup."""

from __future__ import annotations

import asyncio
import json
import pickle
import sys
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import suppress
from typing import Final

from fairlead_servers.fetching import Page

_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXT: Final = ("text/", "application/json", "application/xml")


class Unreadable(Exception):
    """A page without text; the message is a sentence without its full stop."""


async def read_apart(page: Page, seconds: float) -> tuple[str, str]:
    """Title and text of a page; HTML is read by a process of its own. Raises Unreadable, also after `seconds`.

    A page of 2 MB can be written so that reading it takes a minute, which a thread could not be stopped at.
    """
    if _kind(page) not in _HTML:
        return await asyncio.to_thread(readable, page)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, stdin=PIPE, stdout=PIPE, stderr=DEVNULL
    )
    try:
        async with asyncio.timeout(seconds):
            said, _ = await process.communicate(pickle.dumps(page))
    except TimeoutError as error:
        raise Unreadable(f"{page.url[:200]} takes longer than {seconds:g} s to read") from error
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.returncode != 0:
        raise Unreadable(f"{page.url[:200]} cannot be read: its reader ended with exit code {process.returncode}")
    answer = json.loads(said)
    if "unreadable" in answer:
        raise Unreadable(answer["unreadable"])
    return answer["title"], answer["text"]


def readable(page: Page) -> tuple[str, str]:
    """Title and text of a page. Time in proportion to its size, or to its square. Raises Unreadable."""
    kind = _kind(page)
    if kind not in _HTML and not kind.startswith(_TEXT):
        raise Unreadable(f"{page.url[:200]} is {kind[:60]}, which has no text to read")
    text = _decoded(page)
    if kind not in _HTML:
        return "", text
    import trafilatura  # takes 0.3 s, and only the process that reads needs it

    found = trafilatura.extract(text, url=page.url, output_format="json", with_metadata=True, include_tables=True,
                                include_comments=False, favor_recall=True)  # fmt: skip
    if not found:
        raise Unreadable(f"{page.url[:200]} holds no text that could be read; it may be made by scripts")
    said = json.loads(found)
    return str(said.get("title") or ""), str(said.get("text") or "")


def shortened(text: str, characters: int) -> tuple[str, bool]:
    """The text within a budget, cut at the end of a paragraph or a word where one is near; whether it was cut."""
    if len(text) <= characters:
        return text, False
    cut = text[:characters]
    for end in ("\n", ". ", " "):
        at = cut.rfind(end)
        if at > characters * 0.8:
            return cut[: at + len(end.rstrip())].rstrip(), True
    return cut, True


def _kind(page: Page) -> str:
    return page.media_type or ("text/html" if page.body.lstrip()[:1] == b"<" else "text/plain")


def _decoded(page: Page) -> str:
    for charset in (page.charset, "utf-8"):
        try:
            return page.body.decode(charset or "utf-8", "replace" if page.cut else "strict")
        except (UnicodeDecodeError, LookupError):
            continue
    return page.body.decode("latin-1")


def _read() -> None:
    """Read the page of standard input, as the process of `read_apart`."""
    page = pickle.loads(sys.stdin.buffer.read())  # noqa: S301  # of `read_apart`, not of the web
    try:
        title, text = readable(page)
        answer = {"title": title, "text": text}
    except Unreadable as error:
        answer = {"unreadable": str(error)}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    _read()
