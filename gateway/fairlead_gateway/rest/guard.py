"""Which requests reach the REST plane at all: the defense against DNS rebinding, as on the MCP endpoints.

ASGI middleware, put in front by `application`. The probes answer anybody: a kubelet asks by address.
"""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from fairlead_gateway.endpoint.hosts import AllowList
from fairlead_gateway.rest.problems import FORBIDDEN_HOST, FORBIDDEN_ORIGIN, Problem

PROBES: Final = frozenset({"/healthz", "/readyz"})


class Guard:
    """Refuses hosts and origins that are not on the lists."""

    def __init__(self, app: ASGIApp, allow: AllowList) -> None:
        self._app = app
        self._allow = allow

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = None if scope["type"] != "http" or scope["path"] in PROBES else self._refused(scope)
        if refused is None:
            await self._app(scope, receive, send)
        else:
            await refused.response()(scope, receive, send)

    def _refused(self, scope: Scope) -> Problem | None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if not self._allow.host(headers.get(b"host")):
            return Problem(FORBIDDEN_HOST, "Host is not one that this gateway answers for")
        if not self._allow.origin(headers.get(b"origin")):
            return Problem(FORBIDDEN_ORIGIN, "Origin is not allowed")
        return None
