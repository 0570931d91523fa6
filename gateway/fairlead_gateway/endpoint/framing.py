"""Refusals of requests whose framing is not that of HTTP/1.1, whatever they ask for (RFC 9112 sections 2.3, 3.2, 6.1).

Pure module. The parser refuses what it cannot read; this is for what it reads, and another HTTP server on the way may
read differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fairlead_gateway.endpoint import request_target

_VERSIONS: Final = ("1.1", "1.0")
_CHUNKED: Final = b"chunked"
_HOST: Final = b"host"
_CODING: Final = b"transfer-encoding"
_LENGTH: Final = b"content-length"
_OF_THE_HOP: Final = frozenset({b"connection", b"upgrade", b"http2-settings", b"keep-alive", _CODING})
Field = tuple[bytes, bytes]
"""Name in lower case, and value."""


class FramingError(Exception):
    """Raised in a parser callback: nothing more of this connection is read. `status` is an HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def check(version: str, host: bytes | None, coding: bytes | None) -> None:
    """Raise FramingError unless the request is framed as HTTP/1.1 or 1.0. `host` and `coding` are the values of `Host`
    and `Transfer-Encoding`, joined by commas where a field came more than once.
    """
    if version not in _VERSIONS:
        raise FramingError(505, f"HTTP/{version} is not spoken here: send HTTP/1.1")
    if host is None and version == "1.1":
        raise FramingError(400, "the request has no Host")
    if host is not None and b"," in host:
        raise FramingError(400, "the request has more than one Host")
    if coding is None or (coding.lower() == _CHUNKED and version == "1.1"):
        return
    if version != "1.1":
        raise FramingError(400, "Transfer-Encoding is not part of HTTP/1.0")
    names = [name.strip().lower() for name in coding.split(b",")]
    if names[-1] != _CHUNKED or names.count(_CHUNKED) > 1:
        raise FramingError(400, "Transfer-Encoding has to end with chunked, named once")
    raise FramingError(501, "Transfer-Encoding has a coding other than chunked")


def refusal(error: Exception) -> tuple[int, str]:
    """HTTP status and reason to read nothing more, for bytes at which the parser raised `error`."""
    cause = error.__context__
    if isinstance(cause, FramingError):  # by a callback
        return cause.status, str(cause)
    return 400, f"not HTTP/1.1: {error}"


def settled(version: str, fields: Sequence[Field], target: bytes) -> list[Field]:
    """The header fields of a checked request, with the host of an absolute target in place of `Host` (section 3.2.2).

    Raises FramingError.
    """
    check(version, _joined(fields, _HOST), _joined(fields, _CODING))
    if target[:1] == b"/":
        return [*fields]
    authority = request_target.authority(target)
    if authority is None:
        raise FramingError(400, "the request target is neither a path nor a URL of http or https")
    return [*(field for field in fields if field[0] != _HOST), (_HOST, authority)]


def forwarded(method: bytes, target: bytes, version: str, fields: Sequence[Field]) -> tuple[bytes, bool]:
    """The head of a checked request for another parser of this process, and whether its body comes in chunks.

    It has one framing header at most, and none that are about the connection. Raises FramingError.
    """
    chunked = any(name == _CODING for name, _ in fields)
    lines = [b"%b %b HTTP/%b" % (method, target, version.encode())]
    for name, value in fields:
        if b"\r" in value or b"\n" in value:
            raise FramingError(400, "a header field has a line break in it")
        if name not in _OF_THE_HOP and not (chunked and name == _LENGTH):
            lines.append(b"%b: %b" % (name, value))
    if chunked:
        lines.append(b"transfer-encoding: chunked")
    return b"\r\n".join([*lines, b"", b""]), chunked


def upgrading(method: bytes, target: bytes, fields: Sequence[Field]) -> bytes:
    """The head of a checked request that asks for another protocol, for the parser of that protocol's handler. Raises
    FramingError.
    """
    wanted = _joined(fields, b"upgrade") or b""
    if b"\r" in wanted or b"\n" in wanted:
        raise FramingError(400, "a header field has a line break in it")
    bare = [field for field in fields if field[0] not in (_CODING, _LENGTH)]
    lines, _ = forwarded(method, target, "1.1", bare)
    return lines[:-2] + b"connection: upgrade\r\nupgrade: %b\r\n\r\n" % wanted


def without_upgrade(method: bytes, target: bytes, headers: Mapping[bytes, bytes]) -> bytes:
    """The head of a request that offers to speak another protocol, without the offer."""
    lines = [b"%b %b HTTP/1.1" % (method, target)]
    lines += [b"%b: %b" % field for field in headers.items() if field[0] != b"connection"]
    return b"\r\n".join([*lines, b"", b""])


def _joined(fields: Sequence[Field], wanted: bytes) -> bytes | None:
    values = [value for name, value in fields if name == wanted]
    return b", ".join(values) if values else None
