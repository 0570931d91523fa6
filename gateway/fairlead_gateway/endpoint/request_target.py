"""Parses request targets of MCP endpoints in all forms of HTTP (RFC 9112 section 3.2).

Pure module. Plain paths of endpoints are found by a look-up in `HttpService.targets`. This module handles all other
targets: with a query, a trailing slash or percent-encoding, in absolute form, or of unknown endpoints.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

_ABSOLUTE: Final = re.compile(rb"https?://([^/?#]*)([^#]*)", re.IGNORECASE)
_SHAPE: Final = re.compile(rb"(?:/router|/servers/[^/]+(?:/[^/]+)?)?/mcp(?:/[^/]+)?")
"""Paths of MCP endpoints, and `/servers/NAME/mcp`, which lacks the namespace: clients can read the answer to that path
only as an MCP error.
"""
_ESCAPED: Final = re.compile(rb"%([0-9A-Fa-f]{2})")
_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class RequestTarget(msgspec.Struct, frozen=True):
    """Target with the form of an MCP endpoint: its normalized path, and the authority of an absolute target."""

    path: bytes
    authority: bytes | None = None


def parse(target: bytes) -> RequestTarget | None:
    """Parse a target. The endpoint may be unknown; None if the path does not have the form of an MCP endpoint."""
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
    """Host and optional port of a target in absolute form (RFC 9112 section 3.2.2); None for other forms."""
    absolute = _ABSOLUTE.fullmatch(target)
    return None if absolute is None else absolute.group(1)


def _unescape(match: re.Match[bytes]) -> bytes:
    """Decode a percent-encoded unreserved character (RFC 3986 section 2.3); leave other characters encoded, in upper
    case."""
    code = int(match.group(1), 16)
    return bytes((code,)) if code in _UNRESERVED else match.group(0).upper()
