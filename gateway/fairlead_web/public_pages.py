"""Pages that need no authentication: the probes, and the document that says whom to ask for a token (RFC 9728).

Clients of MCP and load balancers ask for them: they are answered without the REST API, which may never be needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from fairlead_gateway.identity.resource import WELL_KNOWN, ProtectedResource
from fairlead_offers.problems import NOT_FOUND, Problem
from fairlead_web.bodies import answer
from fairlead_web.problem_responses import problem_response

HEALTH: Final = "/healthz"
READY: Final = "/readyz"
PROBES: Final = frozenset({HEALTH, READY})


def public(path: str) -> bool:
    """Whether the path needs no authentication."""
    return path in PROBES or path == WELL_KNOWN or path.startswith(WELL_KNOWN + "/")


class Readiness(msgspec.Struct, frozen=True):
    """Whether this gateway should get traffic, and why not."""

    ready: bool
    reason: str
    stale: bool = False
    """The catalog is served from the last snapshot; the source is away. Ready all the same."""


class PublicPages:
    """`healthz` answers while the process does, `readyz` while it should get traffic."""

    def __init__(self, readiness: Callable[[], Readiness], resource: ProtectedResource) -> None:
        self._readiness = readiness
        self._resource = resource

    def has(self, scope: Scope) -> bool:
        """Whether a request is for one of these pages."""
        return scope["type"] == "http" and scope["method"] == "GET" and public(scope["path"])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that is for one of these pages, as an ASGI application."""
        page = {HEALTH: self.healthz, READY: self.readyz}.get(scope["path"], self.protected_resource)
        try:
            response = await page(Request(scope, receive))
        except Problem as problem:
            response = problem_response(problem)
        await response(scope, receive, send)

    async def healthz(self, request: Request) -> Response:
        return answer({"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """With status 503 while it should get no traffic."""
        state = self._readiness()
        return answer(state, 200 if state.ready else 503)

    async def protected_resource(self, request: Request) -> Response:
        """Metadata of the resource at the rest of the path. Raises Problem where no tokens are issued."""
        path = request.url.path.removeprefix(WELL_KNOWN)
        metadata = self._resource.metadata(path, request.headers.get("host", ""))
        if metadata is None:
            raise Problem(NOT_FOUND, "no tokens are issued for this gateway")
        return answer(metadata)
