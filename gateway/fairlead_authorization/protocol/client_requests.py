"""Reads requests that clients send directly, and authenticates the clients (RFC 6749 sections 2.3 and 3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from starlette.requests import Request

from fairlead_authorization.clients.client import ClientUnavailable, RegisteredClient, UnknownClient
from fairlead_authorization.protocol.basic_credentials import basic_credentials
from fairlead_authorization.protocol.client_assertions import claims_of
from fairlead_authorization.protocol.grants import (
    LoadedClient,
    LoadedRequest,
    LoadedServer,
    OAuth2Error,
    SessionGrant,
)
from fairlead_authorization.protocol.parameters import MAX_FORM, Parameters, UnreadableParameters, read_parameters
from fairlead_authorization.protocol.parts import AuthorizationParts
from fairlead_authorization.protocol.responses import RETRY_SECONDS, OAuthRefusal
from fairlead_authorization.sessions.session import SessionStoreUnavailable
from fairlead_web.bodies import read_at_most

FORM: Final = "application/x-www-form-urlencoded"
_CLIENT_PARAMETERS: Final = frozenset({"client_id", "client_secret", "client_assertion", "client_assertion_type"})
_CHALLENGE: Final = {"www-authenticate": 'Basic realm="fairlead"'}


class AuthenticatedRequest(NamedTuple):
    """Request of an authenticated or public client."""

    client: LoadedClient
    request: LoadedRequest

    @property
    def form(self) -> Mapping[str, str]:
        return self.request.form


class ClientRequests:
    """Reads requests of clients to one endpoint."""

    def __init__(self, parts: AuthorizationParts, path: str) -> None:
        """`path` is the path of the endpoint."""
        self._parts = parts
        self._audiences = (parts.issuer, parts.issuer + path)

    async def read(self, request: Request) -> AuthenticatedRequest:
        """Read the form, and authenticate the client. Raises OAuthRefusal."""
        return await self.authenticate(await self.load(request))

    async def load(self, request: Request) -> LoadedRequest:
        """Read the form, without authenticating the client. Raises OAuthRefusal."""
        parameters = await read_form(request)
        authorization = request.headers.get("authorization", "")
        loaded_request = LoadedRequest("POST", parameters, {"Authorization": authorization} if authorization else {})
        if parameters.repeated:
            raise OAuthRefusal("invalid_request", "a parameter is repeated")
        return loaded_request

    async def authenticate(self, loaded_request: LoadedRequest) -> AuthenticatedRequest:
        """Authenticate the client of a request. Raises OAuthRefusal."""
        client_id = _client_id(loaded_request)
        if not client_id:
            raise OAuthRefusal("invalid_client", "the request names no client: send client_id", 401, _CHALLENGE)
        # the client may name itself only in the header or in its assertion
        loaded_request.values.setdefault("client_id", client_id)
        try:
            client = await self._parts.clients.find(client_id)
        except UnknownClient as error:
            raise OAuthRefusal("invalid_client", str(error), 401, _CHALLENGE) from error
        except ClientUnavailable as error:
            raise unavailable_error(error) from error
        loaded_client = LoadedClient(client, self._parts.scopes)
        try:
            self._server(loaded_client).authenticate(loaded_request)
        except OAuth2Error as error:
            raise OAuthRefusal("invalid_client", _authentication_problem(client), 401, _CHALLENGE) from error
        claims = loaded_request.assertion_claims
        if claims is not None and not await self._take(client, claims):
            message = "the client assertion was used before, or has no jti: make a new one for each request"
            raise OAuthRefusal("invalid_client", message, 401, _CHALLENGE)
        return AuthenticatedRequest(loaded_client, loaded_request)

    async def _take(self, client: RegisteredClient, claims: Mapping[str, Any]) -> bool:
        """Use the assertion by which a client has authenticated; False if it was used before. Raises OAuthRefusal."""
        try:
            return await self._parts.used_assertions.take(client, claims)
        except SessionStoreUnavailable as error:
            raise unavailable_error(error) from error

    def check(self, authenticated: AuthenticatedRequest, session_grant: SessionGrant) -> tuple[str, ...]:
        """Check a token request against its session. Returns the scopes of the access token. Raises OAuthRefusal."""
        try:
            return self._server(authenticated.client, session_grant).check_token_request(authenticated.request)
        except OAuth2Error as error:
            description = error.get_error_description() or "the request is not valid"
            raise OAuthRefusal(error.error or "invalid_request", description) from error

    def _server(self, client: LoadedClient, session_grant: SessionGrant | None = None) -> LoadedServer:
        return LoadedServer(client, session_grant, audiences=self._audiences, now=self._parts.now())


def unavailable_error(reason: Exception | str) -> OAuthRefusal:
    """Refusal because the store, a provider or a client's document cannot be reached. The client can try again."""
    return OAuthRefusal("temporarily_unavailable", str(reason), 503, {"retry-after": str(RETRY_SECONDS)})


async def read_form(request: Request) -> Parameters:
    """Read the form of a request. Raises OAuthRefusal."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != FORM:
        raise OAuthRefusal("invalid_request", f"Content-Type must be {FORM}")
    body = await read_body(request, MAX_FORM)
    try:
        return read_parameters(body.decode("utf-8", "replace"))
    except UnreadableParameters as error:
        raise OAuthRefusal("invalid_request", str(error)) from error


async def read_body(request: Request, limit: int) -> bytes:
    """Read a body of at most `limit` bytes. Raises OAuthRefusal."""
    pieces = await read_at_most(request, limit)
    if pieces is None:
        raise OAuthRefusal("invalid_request", f"the body is larger than {limit} bytes", 413)
    return b"".join(pieces)


def names_client(loaded_request: LoadedRequest) -> bool:
    """Whether a request names a client, by a parameter, the header or an assertion."""
    return bool(loaded_request.headers) or not loaded_request.form.keys().isdisjoint(_CLIENT_PARAMETERS)


def _authentication_problem(client: RegisteredClient) -> str:
    """Message to a client that did not authenticate by its method."""
    if client.authentication == "none":
        return "the client is public: send its client_id in the form, and neither a secret nor an assertion"
    return f"the client must authenticate by {client.authentication}, and its credential is missing or wrong"


def _client_id(loaded_request: LoadedRequest) -> str:
    """Id of the client that a request names, not verified yet; empty if it names no client, or several."""
    form = loaded_request.form
    basic = basic_credentials((loaded_request.headers or {}).get("Authorization", ""))
    candidates = {form.get("client_id", ""), basic.client_id if basic is not None else ""}
    if "client_assertion" in form:
        subject = claims_of(form["client_assertion"]).get("sub")
        candidates.add(subject if isinstance(subject, str) else "")
    client_ids = candidates - {""}
    return client_ids.pop() if len(client_ids) == 1 else ""
