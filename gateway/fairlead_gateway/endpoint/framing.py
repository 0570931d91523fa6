"""Checks of HTTP/1.1 message framing and request targets, against request smuggling (RFC 9112 sections 2.3, 3.2, 6.1).

Pure module. The parser (httptools) rejects malformed requests. These checks reject requests that the parser accepts but
that a proxy in front of the gateway might parse differently. Plain paths of MCP endpoints are found by a look-up in
`HttpService.targets`; `parse_target` handles all other targets: with a query, a trailing slash or percent-encoding, in
absolute form, or of unknown endpoints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

_VERSIONS: Final = ("1.1", "1.0")
_CHUNKED: Final = b"chunked"
_HOST: Final = b"host"
_CODING: Final = b"transfer-encoding"
_LENGTH: Final = b"content-length"
_HOP_BY_HOP: Final = frozenset({b"connection", b"upgrade", b"http2-settings", b"keep-alive", _CODING})
Field = tuple[bytes, bytes]
"""Header field: its name in lower case, and its value."""
_ABSOLUTE: Final = re.compile(rb"https?://([^/?#]*)([^#]*)", re.IGNORECASE)
_ENDPOINT_PATH: Final = re.compile(rb"(?:/router|/servers/[^/]+(?:/[^/]+)?)?/mcp(?:/[^/]+)?")
"""Paths of MCP endpoints, and `/servers/NAME/mcp`, which lacks the namespace. Requests for this path are answered with
an MCP error, because MCP clients cannot show other errors.
"""
_PERCENT_CODE: Final = re.compile(rb"%([0-9A-Fa-f]{2})")
_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class FramingError(Exception):
    """Rejection of a request with an HTTP status, raised in a parser callback. The connection has to be closed."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def check(version: str, host: bytes | None, coding: bytes | None) -> None:
    """Raise FramingError if the framing of a request is ambiguous or unsupported.

    `host` and `coding` are the values of `Host` and `Transfer-Encoding`; repeated fields are joined by commas.
    """
    if version not in _VERSIONS:
        raise FramingError(505, f"HTTP/{version} is not supported: send HTTP/1.1")
    if host is None and version == "1.1":
        raise FramingError(400, "the request has no header Host")
    if host is not None and b"," in host:
        raise FramingError(400, "the request has more than one header Host")
    if coding is None or (coding.lower() == _CHUNKED and version == "1.1"):
        return
    if version != "1.1":
        raise FramingError(400, "Transfer-Encoding is not part of HTTP/1.0")
    codings = [name.strip().lower() for name in coding.split(b",")]
    if codings[-1] != _CHUNKED or codings.count(_CHUNKED) > 1:
        raise FramingError(400, "Transfer-Encoding must contain chunked exactly once, at its end")
    raise FramingError(501, "Transfer-Encoding has a coding other than chunked")


def refusal(error: Exception) -> tuple[int, str]:
    """HTTP status and message of the response to a parser error."""
    cause = error.__context__
    if isinstance(cause, FramingError):  # raised in a callback, which the parser wraps in an error of its own
        return cause.status, str(cause)
    return 400, f"not HTTP/1.1: {error}"


def check_fields(version: str, fields: Sequence[Field], target: bytes) -> list[Field]:
    """Check the framing of a request. Returns its header fields, with the host of an absolute target in `Host`.

    RFC 9112, section 3.2.2, requires the replacement. Raises FramingError.
    """
    check(version, _field_value(fields, _HOST), _field_value(fields, _CODING))
    if target[:1] == b"/":
        return [*fields]
    host = authority_of(target)
    if host is None:
        raise FramingError(400, "the request target must be a path, or an http or https URL")
    return [*(field for field in fields if field[0] != _HOST), (_HOST, host)]


def serialize_head(method: bytes, target: bytes, version: str, fields: Sequence[Field]) -> tuple[bytes, bool]:
    """Serialize the head of a checked request for another parser. Returns the bytes, and whether the body is chunked.

    The bytes have at most one framing header, and no hop-by-hop headers. Raises FramingError.
    """
    chunked = any(name == _CODING for name, _ in fields)
    lines = [b"%b %b HTTP/%b" % (method, target, version.encode())]
    for name, value in fields:
        if b"\r" in value or b"\n" in value:
            raise FramingError(400, "a header field contains a line break")
        if name not in _HOP_BY_HOP and not (chunked and name == _LENGTH):
            lines.append(b"%b: %b" % (name, value))
    if chunked:
        lines.append(b"transfer-encoding: chunked")
    return b"\r\n".join([*lines, b"", b""]), chunked


def serialize_upgrade(method: bytes, target: bytes, fields: Sequence[Field]) -> bytes:
    """Serialize the head of a checked `Upgrade` request for the parser of the upgrade handler. Raises FramingError."""
    protocol = _field_value(fields, b"upgrade") or b""
    if b"\r" in protocol or b"\n" in protocol:
        raise FramingError(400, "a header field contains a line break")
    other_fields = [field for field in fields if field[0] not in (_CODING, _LENGTH)]
    lines, _ = serialize_head(method, target, "1.1", other_fields)
    return lines[:-2] + b"connection: upgrade\r\nupgrade: %b\r\n\r\n" % protocol


def serialize_without_upgrade(method: bytes, target: bytes, headers: Mapping[bytes, bytes]) -> bytes:
    """Serialize the head of an `Upgrade` request as the head of an ordinary request, to be parsed again."""
    lines = [b"%b %b HTTP/1.1" % (method, target)]
    lines += [b"%b: %b" % field for field in headers.items() if field[0] != b"connection"]
    return b"\r\n".join([*lines, b"", b""])


def _field_value(fields: Sequence[Field], field_name: bytes) -> bytes | None:
    values = [value for name, value in fields if name == field_name]
    return b", ".join(values) if values else None


class RequestTarget(msgspec.Struct, frozen=True):
    """Target with the form of an MCP endpoint: its normalized path, and the authority of an absolute target."""

    path: bytes
    authority: bytes | None = None


def parse_target(target: bytes) -> RequestTarget | None:
    """Parse a target. The endpoint may be unknown; None if the path does not have the form of an MCP endpoint."""
    authority = None
    match = _ABSOLUTE.fullmatch(target)
    if match is not None:
        authority, target = match.group(1), match.group(2) or b"/"
    path = target.partition(b"?")[0]
    if b"%" in path:
        path = _PERCENT_CODE.sub(_unescape, path)
    if len(path) > 1 and path.endswith(b"/"):
        path = path[:-1]
    if _ENDPOINT_PATH.fullmatch(path) is None:
        return None
    return RequestTarget(path, authority)


def authority_of(target: bytes) -> bytes | None:
    """Host and optional port of a target in absolute form (RFC 9112 section 3.2.2); None for other forms."""
    match = _ABSOLUTE.fullmatch(target)
    return None if match is None else match.group(1)


def _unescape(match: re.Match[bytes]) -> bytes:
    """Decode a percent-encoded unreserved character (RFC 3986 section 2.3); leave other characters encoded, in upper
    case."""
    code = int(match.group(1), 16)
    return bytes((code,)) if code in _UNRESERVED else match.group(0).upper()
