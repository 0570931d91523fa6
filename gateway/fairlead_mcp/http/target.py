"""Parsed URL of an MCP server, and the heads of requests to it. No I/O.

A head is prepared once per server and principal and completed per request. URL, names and values are checked, so that
no URL or credential can inject a header.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, quote, urljoin, urlsplit

import msgspec

from fairlead_mcp.addresses import authority
from fairlead_mcp.errors import McpError

_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_PATH: Final = "/%:@!$&'()*+,;=~-._"
"""Characters that need no escape in a path (RFC 3986 section 3.3)."""
_RESERVED: Final = frozenset(
    {
        b"host",
        b"content-length",
        b"content-type",
        b"accept",
        b"accept-encoding",
        b"transfer-encoding",
        b"connection",
        b"upgrade",
        b"te",
        b"trailer",
        b"expect",
        b"mcp-session-id",
        b"mcp-protocol-version",
        b"mcp-method",
        b"mcp-name",
    }
)
"""Headers that the transport sets itself."""


class InvalidTarget(McpError):
    """A URL or header is invalid. Reasons: InvalidURL, InvalidHeader."""

    reason = "InvalidURL"


class Target(msgspec.Struct, frozen=True):
    """Parsed http or https URL. `path` includes the query; `authority` is the value of the Host header."""

    tls: bool
    host: str
    port: int
    path: bytes
    authority: bytes

    @classmethod
    def from_url(cls, url: str, host_header: str | None = None) -> Target:
        """Parse a URL. `host_header` replaces the Host of the URL, for servers that check it. Raises InvalidTarget."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise InvalidTarget(f"{url!r} is not a URL ({error})") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidTarget(f"{url!r} is not an http or https URL")
        if parts.username is not None or parts.password is not None:
            raise InvalidTarget("a URL must not carry credentials: use auth instead")
        secure = parts.scheme == "https"
        default_port = 443 if secure else 80
        host = parts.hostname
        url_host = f"[{host}]" if ":" in host else host
        authority = host_header or (url_host if port in (None, default_port) else f"{url_host}:{port}")
        path = quote(parts.path or "/", safe=_PATH)
        if parts.query:
            path += "?" + quote(parts.query, safe="/%:@!$&'()*+,;=~-._?")
        return cls(secure, host, port or default_port, path.encode(), checked_value("Host", authority))

    def head(self, method: bytes = b"POST", headers: Mapping[str, str] | None = None) -> bytes:
        """Make a request head of lines that end in CRLF, without the empty line. It requests an uncompressed answer.

        The head of a POST has the Content-Type and Accept that MCP requires. Raises InvalidTarget for a bad header.
        """
        lines = [b"%b %b HTTP/1.1\r\nHost: %b\r\n" % (method, self.path, self.authority)]
        if method == b"POST":
            lines.append(b"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n")
        lines.append(b"Accept-Encoding: identity\r\n")  # without it, any coding may be sent (RFC 9110, 12.5.3)
        for name, value in (headers or {}).items():
            lines.append(b"%b: %b\r\n" % (checked_name(name), checked_value(name, value)))
        return b"".join(lines)

    def slash_redirect(self, status: int, location: bytes) -> Target | None:
        """Return the target of a redirect that only adds or removes a trailing slash; None for other answers.

        Only 307 and 308 preserve the method (RFC 9110 sections 15.4.8 and 15.4.9).
        """
        if status not in (307, 308):
            return None
        parts = self.at_own_origin(location.decode("latin-1"))
        path, _, query = self.path.decode().partition("?")
        other_path = path[:-1] if path.endswith("/") else path + "/"
        if parts is None or not other_path or (quote(parts.path, safe=_PATH), parts.query) != (other_path, query):
            return None
        return msgspec.structs.replace(self, path=(other_path + ("?" + query if query else "")).encode())

    def at_own_origin(self, reference: str) -> SplitResult | None:
        """Resolve `reference` relative to this target; None if it is invalid or of another origin (RFC 6454 section 5).

        Both the origin of the URL and the origin with the Host header in place of the URL's host are this target's.
        """
        scheme = "https" if self.tls else "http"
        for origin in (f"{scheme}://{name}" for name in (self._url_authority, self.authority.decode("latin-1"))):
            own_parts = urlsplit(origin)
            try:
                parts = urlsplit(urljoin(f"{origin}{self.path.decode()}", reference))
                is_own = _origin(parts) == _origin(own_parts) and parts.username is None and parts.password is None
            except ValueError:
                return None
            if is_own:
                return parts
        return None

    @property
    def _url_authority(self) -> str:
        return authority(self.host, self.port)


def _origin(parts: SplitResult) -> tuple[str, str | None, int]:
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def with_body(head: bytes, body: bytes) -> bytes:
    """Make a complete request out of a `Target.head`, possibly with more header lines, and a body."""
    return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)


def checked_name(name: str) -> bytes:
    """Encode the name of a header. Raises InvalidTarget unless users may set it (RFC 9110 section 5.1)."""
    raw = name.encode("utf-8", "replace")
    if not _NAME.fullmatch(raw):
        raise InvalidTarget(f"{name!r} is not a header name", reason="InvalidHeader")
    if raw.lower() in _RESERVED:
        raise InvalidTarget(f"the header {name} is set by the transport", reason="InvalidHeader")
    return raw


def checked_value(name: str, value: str) -> bytes:
    """Encode the value of a header. Raises InvalidTarget, without quoting the value, if it has line breaks or control
    characters (RFC 9110 section 5.5).
    """
    raw = value.strip(" \t").encode("utf-8", "replace")
    if not _VALUE.fullmatch(raw):
        raise InvalidTarget(f"the value of the header {name} has control characters", reason="InvalidHeader")
    return raw
