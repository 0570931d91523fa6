"""Admits requests to the REST API and the LLM APIs with the same checks as the MCP endpoints, and serves public pages.

The ASGI middleware checks the headers Host and Origin (against DNS rebinding), then the credential. Two kinds of
public pages need no credential: the probes of the kubelet, and the metadata of the protected resource (RFC 9728).
Public pages are served without loading the REST API. An admitted request always has an identity in its ASGI scope.
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
from fairlead_gateway.core.identity import ANONYMOUS, BY_OWNER, IDENTITY, LOCAL, Identity
from fairlead_gateway.core.request import agent_in, agent_name, by_name, is_forwarded
from fairlead_gateway.identity.refusal import CredentialRefusal
from fairlead_gateway.identity.request_authentication import Identities, refuse_elsewhere
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
from fairlead_web.cross_origin import CROSS_ORIGIN, preflight_answer
from fairlead_web.problem_responses import internal_error, problem_response

HEALTH: Final = "/healthz"
READY: Final = "/readyz"
PROBES: Final = frozenset({HEALTH, READY})
log = logging.getLogger(__name__)
RETRY_MS: Final = 1000
"""Time after which an overloaded gateway asks clients to retry, in milliseconds."""
_CODES: Final = {400: INVALID_ARGUMENTS, 401: UNAUTHENTICATED, 403: FORBIDDEN, 503: BUSY}


def is_public(path: str) -> bool:
    """Whether the path needs no authentication."""
    return path in PROBES or is_metadata(path)


def is_metadata(path: str) -> bool:
    """Whether metadata of the protected resource are at the path."""
    return path == WELL_KNOWN or path.startswith(WELL_KNOWN + "/")


class Readiness(msgspec.Struct, frozen=True):
    """Whether this gateway should receive traffic, with the reason."""

    ready: bool
    reason: str
    stale: bool = False
    """Whether the source of the catalog cannot be reached; the gateway then serves the last snapshot and is ready."""


class PublicPages:
    """Pages without authentication: `healthz` succeeds while the process runs, `readyz` while the gateway should
    receive traffic.
    """

    def __init__(self, readiness: Callable[[], Readiness], resource: ProtectedResource) -> None:
        self._readiness = readiness
        self._resource = resource

    def has(self, scope: Scope) -> bool:
        """Whether a request is for a public page."""
        if scope["type"] != "http" or not is_public(scope["path"]):
            return False
        return scope["method"] == "GET" or (scope["method"] == "OPTIONS" and is_metadata(scope["path"]))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request for a public page, as an ASGI application."""
        page = {HEALTH: self.healthz, READY: self.readyz}.get(scope["path"], self.protected_resource)
        try:
            response = await page(Request(scope, receive))
        except Problem as problem:
            response = problem_response(problem)
        await response(scope, receive, send)

    async def healthz(self, request: Request) -> Response:
        return answer({"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """Readiness; the status is 503 while this gateway should receive no traffic."""
        state = self._readiness()
        return answer(state, 200 if state.ready else 503)

    async def protected_resource(self, request: Request) -> Response:
        """Metadata of the resource whose path follows the well-known prefix, which web pages of any origin may read.
        Raises Problem if no token issuers are configured.
        """
        if request.method == "OPTIONS":
            return preflight_answer()
        path = request.url.path.removeprefix(WELL_KNOWN)
        metadata = self._resource.metadata(path, request.headers.get("host", ""))
        if metadata is None:
            raise Problem(NOT_FOUND, "this gateway has no protected resource metadata: it accepts no OAuth tokens")
        document = answer(metadata)
        document.headers.update(CROSS_ORIGIN)
        return document


class CredentialReader(Protocol):
    """Reads the credential of a request to an API."""

    @property
    def public(self) -> bool:
        """Whether the request needs no authentication."""
        ...

    @property
    def own_pages(self) -> bool:
        """Whether requests come from pages of this gateway, so that any allowed host is a valid origin."""
        ...

    @property
    def any_origin(self) -> bool:
        """Whether web pages of any origin may send the request: the endpoints are public and use no cookies."""
        ...

    def credential(self, scope: Scope) -> bytes | None:
        """Return the principal's credential as a value of `Authorization`, and remove the credential from all other
        parts of the scope. Raises Problem if the credential cannot be read.
        """
        ...


class ForeignApi(CredentialReader, Protocol):
    """ASGI application of an API with its own format of credentials and errors."""

    def refusal(self, problem: Problem) -> Response:
        """Create an error response in the format of the API."""
        ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


FindApi = Callable[[Scope], Awaitable[ForeignApi | None]]
"""Returns the API that serves the request of an ASGI scope; None if the function has no API for the request."""


class RequestGuard:
    """Admits or rejects requests. Each gateway has one instance."""

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
        """Create the guard. `prepare` builds the views of an identity in slices, so that the event loop is not blocked.

        `client_address` returns the client's address for the address of a connection and its `X-Forwarded-For`.
        `auditor` records rejected requests.
        """
        self.allow = allow
        self.identities = identities
        self.resource = resource
        self._client_address = client_address
        self._prepare = prepare
        self._buffers = buffers
        self._auditor = auditor

    def _origin_problem(
        self, headers: dict[bytes, bytes], api: CredentialReader | None, *, any_origin: bool
    ) -> Problem | None:
        """Rejection of a request that a foreign web page may have sent; None if the request is valid. With
        `any_origin`, only `Host` is checked. For `has_own_pages` of `api`, an origin that equals `Host` is valid too,
        unless every request is anonymous: then only the list of allowed origins protects from DNS rebinding.
        """
        if not self.allow.allows_host(headers.get(b"host")):
            return Problem(
                FORBIDDEN_HOST, "the name in the header Host is not allowed: add it to FAIRLEAD_ALLOWED_HOSTS"
            )
        if any_origin or (api is not None and api.any_origin):
            return None
        origin = headers.get(b"origin")
        has_own_pages = api is not None and api.own_pages
        is_own_origin = (
            has_own_pages and not self.identities.open and origin is not None and _host_of(origin) == headers[b"host"]
        )
        if not is_own_origin and not self.allow.allows_origin(origin):
            return Problem(
                FORBIDDEN_ORIGIN, "the header Origin is not allowed: add its value to FAIRLEAD_ALLOWED_ORIGINS"
            )
        return None

    def client(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[str, int]:
        """Address and port of the client, which may be behind trusted proxies."""
        peer, port = scope.get("client") or ("", 0)
        return self._client_address(peer, headers.get(b"x-forwarded-for")), port

    async def check(self, scope: Scope, api: CredentialReader | None) -> Problem | None:
        """Check a request; returns the reason to reject it. For an admitted request, sets the identity in the scope and
        returns None. If `api` is given, it reads the credential; otherwise the credential is the header Authorization.
        """
        headers, metadata = by_name(scope["headers"]), is_metadata(scope["path"])
        problem = self._origin_problem(headers, api, any_origin=metadata)
        if problem is not None or metadata or scope["path"] in PROBES or (api is not None and api.public):
            return problem
        credential = headers.get(b"authorization")
        if api is not None:
            try:
                credential = api.credential(scope)
            except Problem as problem:
                return problem
            headers = by_name(scope["headers"])
        scope["client"] = self.client(scope, headers)
        verdict = await self.admit(credential, headers, scope["client"][0], scope["path"])
        if isinstance(verdict, Problem):
            return verdict
        if verdict is LOCAL and (is_forwarded(headers) or not scope[BY_OWNER]()):
            verdict = ANONYMOUS
        scope[IDENTITY] = verdict
        scope[UNREAD] = self.counter(verdict, scope["client"][0])
        WORKS_FOR.set(agent_in(scope))
        return None

    async def admit(
        self, authorization: bytes | None, headers: dict[bytes, bytes], address: str, path: str
    ) -> Identity | Problem:
        """Identity of the principal that a credential belongs to, or the reason to reject the request for a path."""
        verdict = self.identities.recall(authorization) or await self.identities.identify(authorization)
        if not isinstance(verdict, Identity):
            return self._refuse(verdict, Origin(address, headers))
        path_refusal = refuse_elsewhere(verdict, path)
        if path_refusal is not None:
            return self._refuse(path_refusal, Origin(address, headers, verdict))
        overload = self._overload_problem(verdict, headers, address)
        if overload is None:
            await self._prepare(verdict)
        return overload or verdict

    def counter(self, identity: Identity, address: str) -> Callable[[int], None]:
        """Return the function that counts the response bytes that the client has not read, for the key UNREAD."""
        return functools.partial(self._buffers.add_unread, agent_name(identity, address))

    def record_change(self, scope: Scope, action: str, name: str, server: ServerKey | None, detail: str) -> None:
        """Record in the audit log that an admitted request has changed the installation."""
        if self._auditor is not None:
            origin = Origin(scope["client"][0], by_name(scope["headers"]), scope[IDENTITY])
            self._auditor.record_change(origin, action, name, server, detail)

    def record_grant_made(self, scope: Scope, identity: Identity, server: ServerKey, detail: str) -> None:
        """Record in the audit log that a user has signed in to a server, by a request for a public page."""
        if self._auditor is not None:
            headers = by_name(scope["headers"])
            origin = Origin(self.client(scope, headers)[0], headers, identity)
            self._auditor.record_change(origin, "accounts/grant", str(server), server, detail)

    def record_sign_in(self, scope: Scope, identity: Identity, client: str, detail: str) -> None:
        """Record in the audit log that a user has signed a client in, by a request for a public page."""
        if self._auditor is not None:
            headers = by_name(scope["headers"])
            origin = Origin(self.client(scope, headers)[0], headers, identity)
            self._auditor.record_change(origin, "sign-ins/grant", client, None, detail)

    def record_sign_in_refusal(self, scope: Scope, status: int, reason: str) -> None:
        """Record in the audit log that a sign-in of a client, or the renewal of one, was refused."""
        if self._auditor is not None:
            headers = by_name(scope["headers"])
            self._auditor.record_rejection(Origin(self.client(scope, headers)[0], headers), status, reason)

    def record_refusal(self, scope: Scope, status: int, reason: str) -> None:
        """Record in the audit log that an admitted request was refused."""
        if self._auditor is not None:
            origin = Origin(scope["client"][0], by_name(scope["headers"]), scope[IDENTITY])
            self._auditor.record_rejection(origin, status, reason)

    def _overload_problem(self, identity: Identity, headers: dict[bytes, bytes], address: str) -> Problem | None:
        """Rejection of a request while clients have left too many response bytes unread; None otherwise."""
        refusal = self._buffers.refusal(agent_name(identity, address)) if self._buffers.refuses_requests else None
        if refusal is None:
            return None
        if self._auditor is not None:
            self._auditor.record_rejection(Origin(address, headers, identity), *refusal)
        return Problem(OVERLOADED if refusal[0] == 503 else RATE_LIMITED, refusal[1], retry_after_ms=RETRY_MS)

    def _refuse(self, refusal: CredentialRefusal, origin: Origin) -> Problem:
        """Rejection of a request without a credential that is valid for it, which is recorded."""
        if self._auditor is not None:
            self._auditor.record_rejection(origin, refusal.status, refusal.message)
        problem = Problem(_CODES[refusal.status], refusal.message)
        problem.headers.update(self.resource.headers(refusal, origin.headers.get(b"host", b"").decode("latin-1"), ""))
        return problem


class GuardMiddleware:
    """Guards an ASGI application, and APIs with their own format of credentials and errors."""

    def __init__(self, app: ASGIApp, guard: RequestGuard, *find_api: FindApi) -> None:
        """Wrap `app`. The functions of `find_api` are called in order, and the first API that one of them returns
        serves the request; without such an API, `app` serves it.
        """
        self._app = app
        self._guard = guard
        self._find_api = find_api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        await asyncio.sleep(0)  # parsing the request took time already, so let the event loop run other work
        api: ForeignApi | None = None
        try:
            for find in self._find_api:
                if (api := await find(scope)) is not None:
                    break
            problem = await self._guard.check(scope, api)
            error_response = (
                None if problem is None else problem_response(problem) if api is None else api.refusal(problem)
            )
        except Exception:
            log.exception("Checking the credential of a request failed")
            error_response = internal_error()
        await (error_response or api or self._app)(scope, receive, send)


def _host_of(origin: bytes) -> bytes:
    """Host and port of an origin."""
    return origin.partition(b"://")[2]
