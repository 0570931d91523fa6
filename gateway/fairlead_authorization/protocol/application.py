"""Endpoints and pages of the authorization server. They need no credential of the gateway.

GET  /oauth/authorize           authorization request of a client; redirects to a provider
GET  /oauth/callback/NAME       answer of the provider NAME; shows the consent page, or redirects to the client
POST /oauth/consent             the person's decision; redirects to the client
POST /oauth/token               exchanges a code, refresh token or assertion for an access token
POST /oauth/revoke              ends a client's access
POST /oauth/register            registers a client, if registration is allowed
GET  /oauth/jwks                public keys
GET  /.well-known/oauth-authorization-server, …/openid-configuration    metadata
"""

from __future__ import annotations

import functools
import math
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from fairlead_authorization.clients.registration import MAX_BODY_BYTES, RegistrationRefused
from fairlead_authorization.protocol.authorize import UNUSABLE, AuthorizationEndpoint, PageProblem
from fairlead_authorization.protocol.callback import ProviderCallback
from fairlead_authorization.protocol.client_requests import read_body, unavailable_error
from fairlead_authorization.protocol.consent import ConsentPages
from fairlead_authorization.protocol.metadata import (
    AUTHORIZE,
    CALLBACK,
    CONSENT,
    JWKS,
    REGISTER,
    REVOKE,
    TOKEN,
    metadata_paths,
    server_metadata,
)
from fairlead_authorization.protocol.parts import AuthorizationParts
from fairlead_authorization.protocol.rates import REGISTRATIONS_PER_MINUTE, AddressRates
from fairlead_authorization.protocol.responses import (
    RETRY_SECONDS,
    OAuthRefusal,
    document_answer,
    error_answer,
    json_answer,
)
from fairlead_authorization.protocol.revocation import RevocationEndpoint
from fairlead_authorization.protocol.token import ClientTokenEndpoint
from fairlead_authorization.sessions.session import SessionRefused, SessionStoreUnavailable
from fairlead_gateway.core.request import by_name
from fairlead_gateway.identity.persons import identity_of
from fairlead_offers.problems import Problem
from fairlead_web.cross_origin import preflight_answer
from fairlead_web.guard import RequestGuard
from fairlead_web.sign_in_html import message_page

_TOO_MANY: Final = "there are too many requests from this address: try again later"
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


class AuthorizationApi:
    """Endpoints of one gateway."""

    def __init__(self, parts: AuthorizationParts, guard: RequestGuard) -> None:
        self._parts = parts
        self._guard = guard
        consents = ConsentPages(parts)
        self._consents = consents
        self._callback = ProviderCallback(parts, consents)
        allows_registration = parts.registrations is not None
        self._metadata = server_metadata(
            parts.issuer,
            parts.scopes,
            takes_documents=parts.takes_documents,
            allows_registration=allows_registration,
            takes_assertions=parts.assertions is not None,
            takes_workloads=parts.workloads is not None,
        )
        self._pages: dict[str, tuple[str, Endpoint]] = {
            AUTHORIZE: ("GET", AuthorizationEndpoint(parts).answer),
            CONSENT: ("POST", self._decide),
            **{
                f"{CALLBACK}{name}": ("GET", functools.partial(self._handle_callback, name=name))
                for name in parts.providers
            },
        }
        self._endpoints: dict[str, tuple[str, Endpoint]] = {
            TOKEN: ("POST", ClientTokenEndpoint(parts, guard.record_sign_in).answer),
            REVOKE: ("POST", RevocationEndpoint(parts).answer),
            JWKS: ("GET", self._keys),
            **dict.fromkeys(metadata_paths(parts.issuer), ("GET", self._describe)),
            **({REGISTER: ("POST", self._register)} if allows_registration else {}),
        }
        self._rates = {
            path: AddressRates(parts.clock, REGISTRATIONS_PER_MINUTE, REGISTRATIONS_PER_MINUTE)
            if path == REGISTER
            else AddressRates(parts.clock)
            for path in (*self._pages, *self._endpoints)
        }

    async def request(self, scope: Scope) -> AuthorizationRequest | None:
        """The request, if its path belongs to these endpoints; else None."""
        path = scope["path"]
        if path in self._pages or path in self._endpoints:
            return AuthorizationRequest(self, scope, is_page=path in self._pages)
        return None

    async def aclose(self) -> None:
        """Close the connections to the providers."""
        for provider in self._parts.providers.values():
            await provider.aclose()

    async def answer_browser(self, request: Request) -> Response:
        """Answer the browser of a person."""
        method, endpoint = self._pages[request.scope["path"]]
        if request.method != method:
            return message_page(UNUSABLE, f"This page only supports {method}.", 405)
        seconds = self._rates[request.scope["path"]].take(self._address(request))
        try:
            if seconds:
                raise PageProblem(f"{_TOO_MANY[:1].upper()}{_TOO_MANY[1:]}.", 429)
            page = await endpoint(request)
        except PageProblem as problem:
            self._record_refusal(request, problem.status, str(problem))
            page = message_page(UNUSABLE, str(problem), problem.status)
            if problem.status in (429, 503):
                page.headers["retry-after"] = str(math.ceil(seconds) or RETRY_SECONDS)
        except SessionRefused as error:
            self._record_refusal(request, 400, str(error))
            page = message_page(UNUSABLE, f"You are not signed in: {error}.", 400)
        except SessionStoreUnavailable as error:
            self._record_refusal(request, 503, str(error))
            page = message_page(UNUSABLE, f"{error}.", 503)
            page.headers["retry-after"] = str(RETRY_SECONDS)
        # a web page of the client may have opened a window for the sign-in, and waits until the window is closed; with
        # any other opener policy, the window would seem to be closed already
        page.headers["cross-origin-opener-policy"] = "unsafe-none"
        return page

    async def answer_client(self, request: Request) -> Response:
        """Answer a client."""
        method, endpoint = self._endpoints[request.scope["path"]]
        if request.method == "OPTIONS":
            return preflight_answer()
        seconds = self._rates[request.scope["path"]].take(self._address(request))
        try:
            # for HEAD, the HTTP server leaves out the body
            if request.method != method and (request.method, method) != ("HEAD", "GET"):
                raise OAuthRefusal("invalid_request", f"this endpoint only supports {method}", 405, {"allow": method})
            if seconds:
                raise OAuthRefusal("slow_down", _TOO_MANY, 429, {"retry-after": str(math.ceil(seconds))})
            return await endpoint(request)
        except OAuthRefusal as refusal:
            if request.method == "POST":
                self._guard.record_sign_in_refusal(request.scope, refusal.status, f"{refusal.error}: {refusal}")
            return error_answer(refusal)

    # Internals

    async def _handle_callback(self, request: Request, *, name: str) -> Response:
        return await self._callback.answer(request, name, functools.partial(self._record, request.scope))

    async def _decide(self, request: Request) -> Response:
        return await self._consents.answer(request, functools.partial(self._record, request.scope))

    async def _describe(self, request: Request) -> Response:
        return document_answer(self._metadata)

    async def _keys(self, request: Request) -> Response:
        try:
            return document_answer(await self._parts.keys.document())
        except SessionStoreUnavailable as error:
            raise unavailable_error(error) from error

    async def _register(self, request: Request) -> Response:
        registrations = self._parts.registrations
        assert registrations is not None, "the path is served only with registration"
        body = await read_body(request, MAX_BODY_BYTES)
        try:
            return json_answer(registrations.register(body), 201)
        except RegistrationRefused as error:
            raise OAuthRefusal(error.error, str(error)) from error

    def _record(self, scope: Scope, person: bytes, client: str, access: str) -> None:
        self._guard.record_sign_in(scope, identity_of(person), client, access)

    def _record_refusal(self, request: Request, status: int, reason: str) -> None:
        self._parts.counts.sign_ins["unavailable" if status == 503 else "refused"] += 1
        self._guard.record_sign_in_refusal(request.scope, status, reason)

    def _address(self, request: Request) -> str:
        return self._guard.client(request.scope, by_name(request.scope["headers"]))[0]


class AuthorizationRequest:
    """One request, as a `ForeignApi`. It needs no credential of the gateway, because the endpoints authenticate their
    clients themselves.
    """

    own_pages = True
    public = True

    def __init__(self, api: AuthorizationApi, scope: Scope, *, is_page: bool) -> None:
        self._api = api
        self._scope = scope
        self._is_page = is_page

    @property
    def any_origin(self) -> bool:
        """Whether web pages of any origin may send the request. True for the endpoints of clients, which read no
        cookies.
        """
        return not self._is_page

    def credential(self, scope: Scope) -> bytes | None:
        """Never called, as all endpoints are public."""
        return None

    def refusal(self, problem: Problem) -> Response:
        """Page for a request with a foreign `Host` or `Origin`."""
        return message_page("Not available here", f"{problem}.", problem.document.status)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        answer = self._api.answer_browser if self._is_page else self._api.answer_client
        response = await answer(request)
        await response(scope, receive, send)
