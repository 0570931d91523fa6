"""Extracts the readable text of a page, without menus and markup. Runs in a child process."""

from __future__ import annotations

import codecs
import json
import re
from typing import Final

import webencodings

from fairlead_servers.page import Page

_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXT: Final = ("text/", "application/json", "application/xml")
_ENCODING_DECLARATION: Final = re.compile(
    rb"""<meta\s[^>]{0,300}?charset\s{0,20}=[\s"']{0,20}([\w.:-]{1,40})|"""
    rb"""<\?xml\s[^>]{0,100}?encoding\s?=\s?["']([\w.:-]{1,40})""",
    re.IGNORECASE,
)
_PRESCAN_BYTES: Final = 1024
"""Number of bytes at the beginning of a page that may declare its encoding (HTML, "prescan a byte stream")."""


class PageUnreadable(Exception):
    """A page without readable text. The message is a sentence without its full stop."""


def extract_text(page: Page) -> tuple[str, str]:
    """Title and text of a page. The time is at most quadratic in the size. Raises Unreadable."""
    kind = _kind(page)
    if kind not in _HTML and not kind.startswith(_TEXT):
        raise PageUnreadable(f"{page.url[:200]} has the type {kind[:60]}, which has no readable text")
    text = decode(page)
    if kind not in _HTML:
        return "", text
    import trafilatura  # importing takes 0.2 s, and plain text does not need it

    extracted_json = trafilatura.extract(
        text,
        url=page.url,
        output_format="json",
        with_metadata=True,
        include_tables=True,
        include_comments=False,
        favor_recall=True,
    )
    if not extracted_json:
        raise PageUnreadable(f"{page.url[:200]} has no readable text; scripts may generate it")
    members = json.loads(extracted_json)
    return str(members.get("title") or ""), str(members.get("text") or "")


def decode(page: Page) -> str:
    """Decode the body by the rules of the WHATWG Encoding Standard. In order of precedence: byte order mark, charset of
    the Content-Type, declaration in the page, UTF-8 if valid, windows-1252.

    Only labels of the standard are accepted: some of Python's codecs can take hours (`punycode`).
    """
    kind = _kind(page)
    declaration = (
        _ENCODING_DECLARATION.search(page.body, 0, _PRESCAN_BYTES) if kind in _HTML or kind.endswith("xml") else None
    )
    encoding = webencodings.lookup(page.charset or "")
    if encoding is None and declaration is not None:
        encoding = webencodings.lookup((declaration[1] or declaration[2]).decode("ascii", "replace"))
        if encoding is not None and encoding.name.startswith("utf-16"):
            encoding = webencodings.UTF8  # the declaration was readable as ASCII, so it is not UTF-16
    if encoding is None:
        encoding = webencodings.lookup("utf-8" if _is_utf8(page) else "windows-1252")
    text, _ = webencodings.decode(page.body, encoding)
    return str(text)


def _kind(page: Page) -> str:
    return page.media_type or ("text/html" if page.body.lstrip()[:1] == b"<" else "text/plain")


def _is_utf8(page: Page) -> bool:
    """Whether the body is valid UTF-8, except for a truncated last character."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(page.body, final=not page.cut)
    except UnicodeDecodeError:
        return False
    return True


def shorten(text: str, characters: int) -> tuple[str, bool]:
    """The text up to a limit, and whether it was cut. It is cut at the end of a paragraph or word, if one ends near the
    limit."""
    if len(text) <= characters:
        return text, False
    beginning = text[:characters]
    for end in ("\n", ". ", " "):
        position = beginning.rfind(end)
        if position > characters * 0.8:
            return beginning[: position + len(end.rstrip())].rstrip(), True
    return beginning, True


def work(encoded: bytes) -> bytes:
    """Extract the text of a page in the child process. Returns JSON with title, text and whether the text was cut, or
    with the reason why the page has no readable text. `encoded`: the page as `reading.extract_in_child` encodes it.
    """
    head, _, body = encoded.partition(b"\n")
    members = json.loads(head)
    characters = members.pop("characters")
    try:
        title, text = extract_text(Page(**members, body=body))
        text, cut = shorten(text, characters)
        answer = {"title": title[:characters], "text": text, "cut": cut}
    except PageUnreadable as error:
        answer = {"unreadable": str(error)}
    return json.dumps(answer).encode()
