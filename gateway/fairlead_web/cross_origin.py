"""Access of web pages of any origin to public documents and endpoints (Fetch standard, "CORS protocol"). No I/O.

Clients that run in browsers read these answers. No cookie is ever a credential for them.
"""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

CROSS_ORIGIN: Final = {
    "access-control-allow-origin": "*",
    "access-control-expose-headers": "www-authenticate, retry-after",
}
"""Headers of each answer."""
_PREFLIGHT: Final = {
    "access-control-allow-methods": "GET, POST, OPTIONS",
    "access-control-allow-headers": "authorization, content-type, accept, mcp-protocol-version",
    "access-control-max-age": "3600",
}


def preflight_answer() -> Response:
    """Answer to a browser that asks whether a page may send a request."""
    return Response(None, 204, {**CROSS_ORIGIN, **_PREFLIGHT})
