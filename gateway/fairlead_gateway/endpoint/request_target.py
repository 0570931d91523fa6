"""Parses request targets of MCP endpoints in every form of HTTP (RFC 9112 section 3.2).

Pure module. The usual form is looked up in the selection directly; this is for the rest: a query, a trailing slash,
percent-encoding, the absolute form, and endpoints that do not exist.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

_ABSOLUTE: Final = re.compile(rb"https?://([^/?#]*)([^#]*)", re.IGNORECASE)
_SHAPE: Final = re.compile(rb"(?:/router)?/mcp(/[^/]+)?|/servers/[^/]+/[^/]+/mcp(/[^/]+)?")
_ESCAPED: Final = re.compile(rb"%([0-9A-Fa-f]{2})")
_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class RequestTarget(msgspec.Struct, frozen=True):
    """Target with the shape of an MCP endpoint: its normalized path, and the authority of an absolute target."""

    path: bytes
    authority: bytes | None = None


def parse(target: bytes) -> RequestTarget | None:
    """The target, whether its endpoint exists or not; None for paths that no MCP endpoint has."""
    authority = None
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is not None:
        authority, target = absolute.group(1), absolute.group(2) or b"/"
    path = target.partition(b"?")[0]
    if b"%" in path:
        path = _ESCAPED.sub(_unescape, path)
    if len(path) > 1 and path.endswith(b"/"):
        path = path[:-1]
    if _SHAPE.fullmatch(path) is None:
        return None
    return RequestTarget(path, authority)


def authority(target: bytes) -> bytes | None:
    """Host, and port where it has one, of a target in absolute form (RFC 9112 section 3.2.2); None for other forms."""
    absolute = _ABSOLUTE.fullmatch(target)
    return None if absolute is None else absolute.group(1)


def _unescape(match: re.Match[bytes]) -> bytes:
    """Percent signs in front of what needs none mean the character itself (RFC 3986 section 2.3)."""
    code = int(match.group(1), 16)
    return bytes((code,)) if code in _UNRESERVED else match.group(0).upper()
