"""URIs of a server where several servers are shown as one: they carry the server's part, the scheme is kept.

Pure module. `ui://clock/app.html` of the server `time` is `ui://time/clock/app.html` there, from the first day and
whatever other servers there are: hosts bind what a user approved to URIs (SEP-1865, SEP-2640). Other schemes stay as
they are, for models give such URIs to tools as arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw

from fairlead_mcp import jsonrpc

SCHEMES: Final = ("ui", "skill")
"""Schemes that mean something at their server alone."""
_decode_list: Final = msgspec.json.Decoder(list[Raw]).decode
_NAMED: Final = re.compile(r"((?:ui|skill)://)([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)
_NO_SCHEME: Final = re.compile(r"[^A-Za-z0-9+.-]")

Places: TypeAlias = Mapping[str, "Places"]
"""Where URIs are in a JSON document: names of members down to the string, `*` for each item of a list."""
META: Final[Places] = {"ui": {"resourceUri": {}}, "ui/resourceUri": {}, "openai/outputTemplate": {}}
"""In the `_meta` of a tool, or of its result."""
_CONTENT: Final[Places] = {"uri": {}, "resource": {"uri": {}}}
"""In a content block: a `resource_link`, or an embedded resource."""
TOOL: Final[Places] = {"_meta": META}
"""In the definition of a tool."""
TOOL_RESULT: Final[Places] = {"_meta": META, "content": {"*": _CONTENT}}
PROMPT_RESULT: Final[Places] = {"_meta": META, "messages": {"*": {"content": {**_CONTENT, "*": _CONTENT}}}}
RESOURCE_RESULT: Final[Places] = {"contents": {"*": {"uri": {}}}}
TASK: Final[Places] = {"result": TOOL_RESULT}
"""In the answer to `tasks/get`, and in `notifications/tasks`."""
SKILL: Final[Places] = {"uri": {}, "resources": {"*": {"uri": {}}}}
"""In an entry of `skills/list`."""
SKILL_RESULT: Final[Places] = {"skill": SKILL}
DIRECTORY_RESULT: Final[Places] = {"resources": {"*": {"uri": {}}}}
UPDATE: Final[Places] = {"uri": {}}
"""In the params of `notifications/resources/updated`."""


def scheme_of(uri: str) -> str:
    """The scheme of a URI in lower case; empty without one. Readers of URLs drop white space and controls in front of
    it and within it (URL Standard, section 4.4), so what no scheme may have is dropped here as well.
    """
    scheme, colon, _ = uri.partition(":")
    if not colon:
        return ""
    return (scheme if scheme.isalnum() else _NO_SCHEME.sub("", scheme)).lower()


def split(uri: str) -> tuple[str, str] | None:
    """The server's part of a URI and the server's own URI; None for one of another scheme, or without such a part."""
    match = _NAMED.fullmatch(uri)
    if match is None or not match[2] or not match[3].startswith("/"):
        return None
    return match[2], match[1] + match[3][1:]


class UriNames:
    """Names of one server's URIs on an endpoint of several servers. `part` is the server's prefix; with an empty one
    all URIs are shown as they are.
    """

    __slots__ = ("part",)

    def __init__(self, part: str) -> None:
        self.part = part

    def show(self, uri: str) -> str:
        """The URI, or URI template, as clients see it."""
        match = _NAMED.fullmatch(uri) if self.part else None
        return uri if match is None else f"{match[1]}{self.part}/{match[2]}{match[3]}"

    def show_in(self, document: bytes | Raw, places: Places) -> bytes | Raw:
        """A JSON document with the URIs in these places as clients see them, all else byte for byte; the same object
        where there is none.
        """
        raw = bytes(document)
        if not self.part or not (b"://" in raw or b"\\/" in raw or b"\\u" in raw):
            return document  # nearly every result: no URI, however it is written
        changed = _replace(document, places, self.show)
        return document if changed is None else changed


def found_in(document: bytes | Raw, places: Places) -> tuple[str, ...]:
    """URIs in these places of a JSON document, each once."""
    seen: dict[str, None] = {}

    def note(uri: str) -> str:
        seen[uri] = None
        return uri

    _replace(document, places, note)
    return tuple(seen)


def _replace(raw: bytes | Raw, places: Places, shown: Callable[[str], str]) -> bytes | None:
    """The document with its URIs replaced; None where nothing is. What has another shape stays as it is."""
    start = bytes(raw)[:64].lstrip()[:1]
    try:
        if not places:
            text = jsonrpc.decode_text(raw) if start == b'"' else None
            new = None if text is None else shown(text)
            return None if new is None or new == text else jsonrpc.encode(new)
        if start == b"[":
            return _replace_items(raw, places.get("*"), shown)
        if start != b"{":
            return None
        members = jsonrpc.decode_object(raw)
    except jsonrpc.UNREADABLE:
        return None
    changed = False
    for name in members.keys() & places.keys():
        new_value = _replace(members[name], places[name], shown)
        if new_value is not None:
            members[name], changed = Raw(new_value), True
    return jsonrpc.encode(members) if changed else None


def _replace_items(raw: bytes | Raw, places: Places | None, shown: Callable[[str], str]) -> bytes | None:
    if places is None:
        return None
    items: list[Any] = _decode_list(raw)
    changed = False
    for at, item in enumerate(items):
        new = _replace(item, places, shown)
        if new is not None:
            items[at], changed = Raw(new), True
    return jsonrpc.encode(items) if changed else None
