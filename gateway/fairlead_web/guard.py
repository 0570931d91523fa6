"""Admission of requests to the REST API and the APIs of models, as on the MCP endpoints, and the pages that need none.

ASGI middleware. It checks Host and Origin first (DNS rebinding), then the credential, except for public pages: probes,
to which a kubelet shows no credential, and the metadata of the protected resource (RFC 9728). Public pages are answered
without the REST API, which may never be loaded. A resource finds the identity in the scope; there is always one.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from fairlead_api.meta import ServerKey
from fairlead_gateway.audit.auditor import Auditor
from fairlead_gateway.calls.path.direct import Origin
from fairlead_gateway.core.identity import IDENTITY, Identity
from fairlead_gateway.core.request import agent_in, agent_name, by_name
from fairlead_gateway.identity.identities import Identities
from fairlead_gateway.identity.refusal import CredentialRefusal
from fairlead_gateway.identity.resource import WELL_KNOWN, ProtectedResource
from fairlead_gateway.limits.buffers import AnswerBuffers
from fairlead_gateway.limits.fair_rotation import WORKS_FOR
from fairlead_mcp.addresses import AllowList
from fairlead_offers.problems import (
    BUSY,
    FORBIDDEN,
    FORBIDDEN_HOST,
    FORBIDDEN_ORIGIN,
    INVALID_ARGUMENTS,
    NOT_FOUND,
    OVERLOADED,
    RATE_LIMITED,
    UNAUTHENTICATED,
    Problem,
)
from fairlead_web.bodies import UNREAD, answer
from fairlead_web.problem_responses import failure, problem_response

HEALTH: Final = "/healthz"
READY: Final = "/readyz"
PROBES: Final = frozenset({HEALTH, READY})
log = logging.getLogger(__name__)
RETRY_MS: Final = 1000
_CODES: Final = {400: INVALID_ARGUMENTS, 401: UNAUTHENTICATED, 403: FORBIDDEN, 503: BUSY}


def public(path: str) -> bool:
    """Whether the path needs no authentication."""
    return path in PROBES or path == WELL_KNOWN or path.startswith(WELL_KNOWN + "/")


class Readiness(msgspec.Struct, frozen=True):
    """Whether this gateway should get traffic, with the reason."""

    ready: bool
    reason: str
    stale: bool = False
    """Whether the source cannot be reached, and the last snapshot is served. The gateway is ready then."""


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
        """Status 503 while this gateway should get no traffic."""
        state = self._readiness()
        return answer(state, 200 if state.ready else 503)

    async def protected_resource(self, request: Request) -> Response:
        """Metadata of the resource at the rest of the path. Raises Problem where no tokens are issued."""
        path = request.url.path.removeprefix(WELL_KNOWN)
        metadata = self._resource.metadata(path, request.headers.get("host", ""))
        if metadata is None:
            raise Problem(NOT_FOUND, "no tokens are issued for this gateway")
        return answer(metadata)


class CredentialReader(Protocol):
    """Finds credentials where an API has them."""

    @property
    def public(self) -> bool:
        """Whether the request needs no authentication."""
        ...

    @property
    def own_pages(self) -> bool:
        """Whether its requests come from pages of this gateway, whose origin may be any allowed host."""
        ...

    def credential(self, scope: Scope) -> bytes | None:
        """The principal's credential as a value of `Authorization`, removed from wherever else it was in the scope.
        Raises Problem where it cannot be read.
        """
        ...


class ForeignApi(CredentialReader, Protocol):
    """An API with its own form of credentials and errors: an ASGI application for the paths that it has."""

    def refusal(self, problem: Problem) -> Response:
        """A refusal in the form of the API."""
        ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


FindApi = Callable[[Scope], Awaitable[ForeignApi | None]]
"""Finds the API that a request is for; None where it is for another."""


class RequestGuard:
    """Admits or refuses requests. One per gateway."""

    def __init__(
        self,
        allow: AllowList,
        identities: Identities,
        resource: ProtectedResource,
        prepare: Callable[[Identity], Awaitable[None]],
        client_address: Callable[[str, bytes | None], str],
        buffers: AnswerBuffers,
        auditor: Auditor | None = None,
    ) -> None:
        """`prepare` builds the views of an identity in slices, so that the event loop is not held up.

        `client_address` takes the address of a connection and its `X-Forwarded-For`. `auditor` records refused
        requests.
        """
        self.allow = allow
        self.identities = identities
        self.resource = resource
        self._client_address = client_address
        self._prepare = prepare
        self._buffers = buffers
        self._auditor = auditor

    def _misplaced_problem(self, headers: dict[bytes, bytes], *, own_pages: bool = False) -> Problem | None:
        """The refusal of a request that a web page from elsewhere may have made. With `own_pages` a page may be of the
        host that is asked, unless everybody may come in: then nothing but the list keeps rebound names out.
        """
        if not self.allow.host(headers.get(b"host")):
            return Problem(FORBIDDEN_HOST, "Host is not one that this gateway answers for")
        origin = headers.get(b"origin")
        same = own_pages and not self.identities.open and origin is not None and _host_of(origin) == headers[b"host"]
        if not same and not self.allow.origin(origin):
            return Problem(FORBIDDEN_ORIGIN, "Origin is not allowed")
        return None

    def client(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[str, int]:
        """Address and port that a request came from, behind proxies that are trusted."""
        peer, port = scope.get("client") or ("", 0)
        return self._client_address(peer, headers.get(b"x-forwarded-for")), port

    async def check(self, scope: Scope, api: CredentialReader | None) -> Problem | None:
        """Reason to refuse a request; None, and the identity in the scope, for an admitted one. `api` reads credentials
        in its own way.
        """
        headers = by_name(scope["headers"])
        problem = self._misplaced_problem(headers, own_pages=api is not None and api.own_pages)
        if problem is not None or public(scope["path"]) or (api is not None and api.public):
            return problem
        credential = headers.get(b"authorization")
        if api is not None:
            try:
                credential = api.credential(scope)
            except Problem as problem:
                return problem
            headers = by_name(scope["headers"])
        scope["client"] = self.client(scope, headers)
        admitted = await self.admit(credential, headers, scope["client"][0])
        if isinstance(admitted, Problem):
            return admitted
        scope[IDENTITY] = admitted
        scope[UNREAD] = self.counter(admitted, scope["client"][0])
        WORKS_FOR.set(agent_in(scope))
        return None

    async def admit(self, authorization: bytes | None, headers: dict[bytes, bytes], address: str) -> Identity | Problem:
        """Identity of the principal with that credential, or the problem for which the request is refused."""
        verdict = self.identities.recall(authorization) or await self.identities.identify(authorization)
        if isinstance(verdict, Identity):
            crowded = self._overload_problem(verdict, headers, address)
            if crowded is None:
                await self._prepare(verdict)
            return crowded or verdict
        if self._auditor is not None:
            self._auditor.record_rejection(Origin(address, headers), verdict.status, verdict.message)
        return self._credential_problem(verdict, headers.get(b"host", b"").decode("latin-1"))

    def counter(self, identity: Identity, address: str) -> Callable[[int], None]:
        """Counts unread bytes of a client."""
        return functools.partial(self._buffers.unread, agent_name(identity, address))

    def record_change(self, scope: Scope, action: str, name: str, server: ServerKey | None, what: str) -> None:
        """Have the audit log say what an admitted request changed of the installation."""
        if self._auditor is not None:
            origin = Origin(scope["client"][0], by_name(scope["headers"]), scope[IDENTITY])
            self._auditor.record_change(origin, action, name, server, what)

    def _overload_problem(self, identity: Identity, headers: dict[bytes, bytes], address: str) -> Problem | None:
        """The refusal of a request while too many bytes of answers are not read."""
        refused = self._buffers.refusal(agent_name(identity, address)) if self._buffers.pressed else None
        if refused is None:
            return None
        if self._auditor is not None:
            self._auditor.record_rejection(Origin(address, headers, identity), *refused)
        return Problem(OVERLOADED if refused[0] == 503 else RATE_LIMITED, refused[1], retry_after_ms=RETRY_MS)

    def _credential_problem(self, refusal: CredentialRefusal, host: str) -> Problem:
        problem = Problem(_CODES[refusal.status], refusal.message)
        problem.headers.update(self.resource.headers(refusal, host, ""))
        return problem


class GuardMiddleware:
    """Guards an application and, beside it, APIs with their own form of credentials and errors."""

    def __init__(self, app: ASGIApp, guard: RequestGuard, *find_api: FindApi) -> None:
        """The first of `find_api` that knows a request's path gets the request, else `app`."""
        self._app = app
        self._guard = guard
        self._find_api = find_api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        await asyncio.sleep(0)  # reading the head took a turn of the loop
        api: ForeignApi | None = None
        try:
            for find in self._find_api:
                if (api := await find(scope)) is not None:
                    break
            problem = await self._guard.check(scope, api)
            refused = None if problem is None else problem_response(problem) if api is None else api.refusal(problem)
        except Exception:
            log.exception("Checking the credential of a request failed")
            refused = failure()
        await (refused or api or self._app)(scope, receive, send)


def _host_of(origin: bytes) -> bytes:
    """Host and port of an origin."""
    return origin.partition(b"://")[2]
