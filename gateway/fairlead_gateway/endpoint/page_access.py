"""Header lines by which a browser lets a web page call an MCP endpoint (Fetch standard, "CORS protocol").

Pure module. The origin has to be allowed already. `Access-Control-Allow-Credentials` is never sent, and the endpoints
do not read cookies: a page has to have a credential itself.
"""

from __future__ import annotations

from typing import Final

from fairlead_gateway.core.request import Headers

_EXPOSED: Final = (
    b"vary: Origin\r\n"
    b"access-control-expose-headers: Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After\r\n"
)
_PREFLIGHT: Final = (
    b"vary: Origin, Access-Control-Request-Headers\r\naccess-control-allow-methods: GET, POST, DELETE\r\n"
    b"access-control-max-age: 3600\r\n"
)


def page_lines(headers: Headers) -> bytes:
    """Lines of the response to a page's request, which has `Origin`."""
    return b"access-control-allow-origin: %b\r\n%b" % (headers[b"origin"], _EXPOSED)


def preflight_lines(headers: Headers) -> bytes:
    """Lines of the answer to a browser that asks whether a page may send a request. All headers are allowed, as clients
    mirror arguments in `Mcp-Param-*` (SEP-2243), and have headers of their own.
    """
    lines = b"access-control-allow-origin: %b\r\n%b" % (headers[b"origin"], _PREFLIGHT)
    wanted = headers.get(b"access-control-request-headers")
    return lines if wanted is None else b"%baccess-control-allow-headers: %b\r\n" % (lines, wanted)
