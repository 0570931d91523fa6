"""Prefixes of resource URIs on merged endpoints, which tell the servers apart. No I/O.

`ui://clock/app.html` of the server `time` becomes `ui://time/clock/app.html`, whatever other servers there are: the URI
has to be stable, as hosts store approvals of users by URI (SEP-1865, SEP-2640). URIs of other schemes stay unchanged,
because models pass them to tools as arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw

from fairlead_mcp import jsonrpc

SCHEMES: Final = ("ui", "skill")
"""Schemes of URIs that only MCP clients resolve, by reading them from the server."""
_decode_list: Final = msgspec.json.Decoder(list[Raw]).decode
_PREFIXED_URI: Final = re.compile(r"((?:ui|skill)://)([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)
_NO_SCHEME: Final = re.compile(r"[^A-Za-z0-9+.-]")

UriPositions: TypeAlias = Mapping[str, "UriPositions"]
"""Positions of URIs in a JSON document: nested names of members, `*` for the items of a list."""
META: Final[UriPositions] = {"ui": {"resourceUri": {}}, "ui/resourceUri": {}, "openai/outputTemplate": {}}
"""Positions in the `_meta` of a tool or of its result."""
_CONTENT: Final[UriPositions] = {"uri": {}, "resource": {"uri": {}}}
"""Positions in a content block: a `resource_link` or an embedded resource."""
TOOL: Final[UriPositions] = {"_meta": META}
"""Positions in the definition of a tool."""
TOOL_RESULT: Final[UriPositions] = {"_meta": META, "content": {"*": _CONTENT}}
PROMPT_RESULT: Final[UriPositions] = {"_meta": META, "messages": {"*": {"content": {**_CONTENT, "*": _CONTENT}}}}
RESOURCE_RESULT: Final[UriPositions] = {"contents": {"*": {"uri": {}}}}
TASK: Final[UriPositions] = {"result": TOOL_RESULT}
"""Positions in the answer to `tasks/get` and in `notifications/tasks`."""
SKILL: Final[UriPositions] = {"uri": {}, "resources": {"*": {"uri": {}}}}
"""Positions in an entry of `skills/list`."""
SKILL_RESULT: Final[UriPositions] = {"skill": SKILL}
DIRECTORY_RESULT: Final[UriPositions] = {"resources": {"*": {"uri": {}}}}
UPDATE: Final[UriPositions] = {"uri": {}}
"""Position in the params of `notifications/resources/updated`."""


def scheme_of(uri: str) -> str:
    """Return the scheme of a URI in lower case; empty without one.

    Characters that are not allowed in a scheme are dropped, as parsers of URLs drop white space and control characters
    (URL Standard, section 4.4).
    """
    scheme, colon, _ = uri.partition(":")
    if not colon:
        return ""
    return (scheme if scheme.isalnum() else _NO_SCHEME.sub("", scheme)).lower()


def split(uri: str) -> tuple[str, str] | None:
    """Split a URI into a server's prefix and the server's URI; None for another scheme or without a prefix."""
    match = _PREFIXED_URI.fullmatch(uri)
    if match is None or not match[2] or not match[3].startswith("/"):
        return None
    return match[2], match[1] + match[3][1:]


class UriNames:
    """Adds the prefix of one server to its URIs; an empty prefix leaves them unchanged."""

    __slots__ = ("prefix",)

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def show(self, uri: str) -> str:
        """Add the prefix to a URI or URI template."""
        match = _PREFIXED_URI.fullmatch(uri) if self.prefix else None
        return uri if match is None else f"{match[1]}{self.prefix}/{match[2]}{match[3]}"

    def show_in(self, document: bytes | Raw, positions: UriPositions) -> bytes | Raw:
        """Add the prefix to the URIs at the positions `positions` of a JSON document; other members stay byte for byte.

        Returns the same object if no URI changes.
        """
        raw = bytes(document)
        if not self.prefix or not (b"://" in raw or b"\\/" in raw or b"\\u" in raw):
            return document  # most results have no URI, not even with escapes
        changed = _replace(document, positions, self.show)
        return document if changed is None else changed


def find_uris(document: bytes | Raw, positions: UriPositions) -> tuple[str, ...]:
    """Return the URIs at the positions `positions` of a JSON document, each once."""
    seen: dict[str, None] = {}

    def note(uri: str) -> str:
        seen[uri] = None
        return uri

    _replace(document, positions, note)
    return tuple(seen)


def _replace(raw: bytes | Raw, positions: UriPositions, change: Callable[[str], str]) -> bytes | None:
    """Replace the URIs at the positions `positions`; None if no URI changes. Malformed parts stay unchanged."""
    start = bytes(raw)[:64].lstrip()[:1]
    try:
        if not positions:
            text = jsonrpc.decode_text(raw) if start == b'"' else None
            new_text = None if text is None else change(text)
            return None if new_text is None or new_text == text else jsonrpc.encode(new_text)
        if start == b"[":
            return _replace_items(raw, positions.get("*"), change)
        if start != b"{":
            return None
        members = jsonrpc.decode_object(raw)
    except jsonrpc.UNREADABLE:
        return None
    changed = False
    for name in members.keys() & positions.keys():
        new_value = _replace(members[name], positions[name], change)
        if new_value is not None:
            members[name], changed = Raw(new_value), True
    return jsonrpc.encode(members) if changed else None


def _replace_items(raw: bytes | Raw, positions: UriPositions | None, change: Callable[[str], str]) -> bytes | None:
    if positions is None:
        return None
    items: list[Any] = _decode_list(raw)
    changed = False
    for at, item in enumerate(items):
        new = _replace(item, positions, change)
        if new is not None:
            items[at], changed = Raw(new), True
    return jsonrpc.encode(items) if changed else None
