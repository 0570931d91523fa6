"""Which requests reach the REST API at all, and whose they are: as on the MCP endpoints.

ASGI middleware. The defense against DNS rebinding comes first, then everybody is asked
who they are but for what is public: the probes (a kubelet shows nothing) and the document that says whom to ask for a
token. A resource finds the identity in the scope; there is always one.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from fairlead_api.meta import ServerKey
from fairlead_gateway.audit.auditor import Auditor
from fairlead_gateway.calls.path.direct import Origin
from fairlead_gateway.core.identity import IDENTITY, Identity
from fairlead_gateway.core.request import agent_in, agent_name, by_name
from fairlead_gateway.identity.identities import Identities
from fairlead_gateway.identity.refusal import CredentialRefusal
from fairlead_gateway.identity.resource import ProtectedResource
from fairlead_gateway.limits.buffers import AnswerBuffers
from fairlead_gateway.limits.turns import WORKS_FOR
from fairlead_mcp.addresses import AllowList
from fairlead_offers.problems import (
    BUSY,
    FORBIDDEN,
    FORBIDDEN_HOST,
    FORBIDDEN_ORIGIN,
    INVALID_ARGUMENTS,
    OVERLOADED,
    RATE_LIMITED,
    UNAUTHENTICATED,
    Problem,
)
from fairlead_web.bodies import UNREAD
from fairlead_web.problem_responses import failure, problem_response
from fairlead_web.public_pages import PROBES, public

log = logging.getLogger(__name__)

RETRY_MS: Final = 1000
_CODES: Final = {400: INVALID_ARGUMENTS, 401: UNAUTHENTICATED, 403: FORBIDDEN, 503: BUSY}


class CredentialReader(Protocol):
    """Finds credentials where an API has them."""

    @property
    def public(self) -> bool:
        """Whether the request needs no authentication."""
        ...

    @property
    def own_pages(self) -> bool:
        """Whether its requests come from pages of this gateway's, which may be under any name that is let in."""
        ...

    def credential(self, scope: Scope) -> bytes | None:
        """The principal's credential as a value of `Authorization`, removed from wherever else it was in the scope.
        Raises Problem where it cannot be read.
        """
        ...


class ForeignApi(CredentialReader, Protocol):
    """An API in a form that is somebody else's: an ASGI application for the paths that it has."""

    def refusal(self, problem: Problem) -> Response:
        """A refusal in the form of the API."""
        ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


ForeignApis = Callable[[Scope], ForeignApi | None]
"""Finds the API that a request is one of; None for all others."""


class RequestGuard:
    """Decides about one request at a time. One per gateway."""

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
        """`prepare` makes the views of a subject, so that the loop does not wait for them.

        `client_address` takes the address of a connection and its `X-Forwarded-For`. `auditor` records requests that
        are turned away.
        """
        self.allow = allow
        self.identities = identities
        self.resource = resource
        self._client_address = client_address
        self._prepare = prepare
        self._buffers = buffers
        self._auditor = auditor

    def misplaced(self, headers: dict[bytes, bytes], *, own_pages: bool = False) -> Problem | None:
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

    async def checked(self, scope: Scope, api: CredentialReader | None) -> Problem | None:
        """Reason to refuse a request; None, and the identity in the scope, for an admitted one. `api` reads credentials
        in its own way.
        """
        headers = by_name(scope["headers"])
        problem = self.misplaced(headers, own_pages=api is not None and api.own_pages)
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
        admitted = await self.admitted(credential, headers, scope["client"][0])
        if isinstance(admitted, Problem):
            return admitted
        scope[IDENTITY] = admitted
        scope[UNREAD] = self.counter(admitted, scope["client"][0])
        WORKS_FOR.set(agent_in(scope))
        return None

    async def admitted(
        self, authorization: bytes | None, headers: dict[bytes, bytes], address: str
    ) -> Identity | Problem:
        """Identity of the principal with that credential, or the problem for which the request is refused."""
        verdict = self.identities.recall(authorization) or await self.identities.identify(authorization)
        if isinstance(verdict, Identity):
            crowded = self._crowded(verdict, headers, address)
            if crowded is None:
                await self._prepare(verdict)
            return crowded or verdict
        if self._auditor is not None:
            self._auditor.record_rejection(Origin(address, headers), verdict.status, verdict.message)
        return self._refused(verdict, headers.get(b"host", b"").decode("latin-1"))

    def counter(self, identity: Identity, address: str) -> Callable[[int], None]:
        """Counts unread bytes of a client."""
        return functools.partial(self._buffers.unread, agent_name(identity, address))

    def administered(self, scope: Scope, action: str, name: str, server: ServerKey | None, what: str) -> None:
        """Have the audit log say what an admitted request changed of the installation."""
        if self._auditor is not None:
            origin = Origin(scope["client"][0], by_name(scope["headers"]), scope[IDENTITY])
            self._auditor.record_change(origin, action, name, server, what)

    def _crowded(self, identity: Identity, headers: dict[bytes, bytes], address: str) -> Problem | None:
        """The refusal of a request while too many bytes of answers are not read."""
        refused = self._buffers.refusal(agent_name(identity, address)) if self._buffers.pressed else None
        if refused is None:
            return None
        if self._auditor is not None:
            self._auditor.record_rejection(Origin(address, headers, identity), *refused)
        return Problem(OVERLOADED if refused[0] == 503 else RATE_LIMITED, refused[1], retry_after_ms=RETRY_MS)

    def _refused(self, refusal: CredentialRefusal, host: str) -> Problem:
        problem = Problem(_CODES[refusal.status], refusal.message)
        problem.headers.update(self.resource.headers(refusal, host, ""))
        return problem


class GuardMiddleware:
    """The application behind the guard, and beside it the APIs in forms of others."""

    def __init__(self, app: ASGIApp, guard: RequestGuard, *foreign: ForeignApis) -> None:
        self._app = app
        self._guard = guard
        self._foreign = foreign

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        await asyncio.sleep(0)  # reading its head was a turn's work
        api: ForeignApi | None = None
        try:
            api = next((foreign for find in self._foreign if (foreign := find(scope)) is not None), None)
            problem = await self._guard.checked(scope, api)
            refused = None if problem is None else problem_response(problem) if api is None else api.refusal(problem)
        except Exception:
            log.exception("Whose request it is cannot be found out")
            refused = failure()
        await (refused or api or self._app)(scope, receive, send)


def _host_of(origin: bytes) -> bytes:
    """Host and port of an origin."""
    return origin.partition(b"://")[2]
