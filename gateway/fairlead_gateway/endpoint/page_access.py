"""Header lines by which a browser lets a web page call an MCP endpoint (Fetch standard, "CORS protocol").

Pure module. The caller has already checked that the origin is allowed. `Access-Control-Allow-Credentials` is never
sent, and the endpoints do not read cookies, so a page needs a credential of its own.
"""

from __future__ import annotations

from typing import Final

from fairlead_gateway.core.request import Headers

_RESPONSE_LINES: Final = (
    b"vary: Origin\r\n"
    b"access-control-expose-headers: Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After\r\n"
)
_PREFLIGHT_LINES: Final = (
    b"vary: Origin, Access-Control-Request-Headers\r\naccess-control-allow-methods: GET, POST, DELETE\r\n"
    b"access-control-max-age: 3600\r\n"
)


def page_lines(headers: Headers) -> bytes:
    """Header lines of the response to a request with `Origin`."""
    return b"access-control-allow-origin: %b\r\n%b" % (headers[b"origin"], _RESPONSE_LINES)


def preflight_lines(headers: Headers) -> bytes:
    """Header lines of the response to a CORS preflight request. All request headers are allowed, because clients send
    copies of arguments in `Mcp-Param-*` (SEP-2243), and headers of their own.
    """
    lines = b"access-control-allow-origin: %b\r\n%b" % (headers[b"origin"], _PREFLIGHT_LINES)
    requested_headers = headers.get(b"access-control-request-headers")
    return (
        lines if requested_headers is None else b"%baccess-control-allow-headers: %b\r\n" % (lines, requested_headers)
    )
