"""Checks requests with Authlib, against a client and a session that were loaded before. No I/O.

Authlib's server is synchronous. So the endpoint first awaits client and session, then lets Authlib check the request
against them, and then awaits the changes that the request makes.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from authlib.oauth2.rfc6749 import (
    AuthorizationCodeMixin,
    AuthorizationServer,
    ClientMixin,
    OAuth2Request,
    TokenMixin,
)
from authlib.oauth2.rfc6749.errors import InvalidRequestError, InvalidScopeError, OAuth2Error
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant, RefreshTokenGrant
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from authlib.oauth2.rfc7636 import CodeChallenge

from fairlead_authorization.clients.client import RegisteredClient
from fairlead_authorization.clients.redirects import matches
from fairlead_authorization.protocol.basic_credentials import basic_credentials
from fairlead_authorization.protocol.client_assertions import verify_assertion
from fairlead_authorization.protocol.metadata import AUTHENTICATION_METHODS
from fairlead_authorization.protocol.parameters import Parameters
from fairlead_authorization.sessions.session import ClientSession

ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
MAX_SCOPES: Final = 32
_URI: Final = "https://gateway.invalid/"
"""An https URL for Authlib, which refuses http URLs. Whether TLS is required is a setting of the gateway."""
_SECRET_METHODS: Final = frozenset({"client_secret_basic", "client_secret_post"})
"""Methods that are accepted for each other: both send the secret, and libraries choose one without looking at the
registration."""


class LoadedRequest(OAuth2Request):
    """Request with its parameters read."""

    def __init__(self, method: str, parameters: Parameters, headers: Mapping[str, str]) -> None:
        """`headers` has `Authorization`, if the request has one."""
        super().__init__(method, _URI, headers=dict(headers))
        self.values = dict(parameters.values)
        self.payload = BasicOAuth2Payload(self.values)
        self.assertion_claims: Mapping[str, Any] | None = None
        """Verified claims of the client's assertion; None without a valid one."""

    @property
    def form(self) -> dict[str, str]:
        """Parameters of a form."""
        return self.values


class LoadedClient(ClientMixin):
    """Adapts a client to Authlib's interface."""

    def __init__(self, client: RegisteredClient, scopes: tuple[str, ...]) -> None:
        """`scopes` are all scopes of the gateway."""
        self.client = client
        self._scopes = scopes

    def get_client_id(self) -> str:
        return self.client.id

    def get_default_redirect_uri(self) -> str:
        return ""

    def get_allowed_scope(self, scope: Collection[str] | str) -> str:
        """The requested scopes that the gateway has; others are left out (RFC 6749 section 3.3). All scopes of the
        gateway if it has none of the requested scopes.
        """
        requested = scope.split()[:MAX_SCOPES] if isinstance(scope, str) else ()
        allowed_scopes = [scope for scope in self._scopes if scope in requested]
        return " ".join(allowed_scopes or self._scopes)

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return matches(redirect_uri, self.client.redirect_uris)

    def check_client_secret(self, client_secret: str) -> bool:
        digest = hashlib.sha256(client_secret.encode("utf-8", "replace")).hexdigest()
        return bool(self.client.secret_sha256) and hmac.compare_digest(digest, self.client.secret_sha256)

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        own_method = self.client.authentication
        return method == own_method or (method in _SECRET_METHODS and own_method in _SECRET_METHODS)

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in ("authorization_code", "refresh_token")


class SessionGrant(AuthorizationCodeMixin, TokenMixin):
    """Adapts a session, with its code and refresh token, to Authlib's interface."""

    code_challenge_method = "S256"

    def __init__(self, session: ClientSession) -> None:
        self.session = session
        self.code_challenge = session.access.challenge

    def get_redirect_uri(self) -> str:
        return self.session.access.redirect_uri

    def get_scope(self) -> str:
        return " ".join(self.session.access.scopes)

    def check_client(self, client: ClientMixin) -> bool:
        return self.session.client_id == client.get_client_id()


class S256Challenge(CodeChallenge):
    """PKCE (RFC 7636), which is required for all clients, with S256 only. The default method `plain` is refused,
    because everybody who sees the request would know the verifier.
    """

    def validate_code_challenge(self, grant: AuthorizationCodeGrant, redirect_uri: str) -> None:
        data = grant.request.form
        if not data.get("code_challenge") or data.get("code_challenge_method") != "S256":
            raise InvalidRequestError("PKCE is required: send code_challenge and code_challenge_method=S256")
        super().validate_code_challenge(grant, redirect_uri)


class _CodeGrant(AuthorizationCodeGrant):
    server: LoadedServer

    def authenticate_token_endpoint_client(self) -> LoadedClient:
        self.request.auth_method = "none"  # the client has authenticated already; PKCE is still required
        return self.server.client

    def query_authorization_code(self, code: str, client: ClientMixin) -> SessionGrant | None:
        session_grant = self.server.session_grant
        return session_grant if session_grant is not None and session_grant.check_client(client) else None


class _RefreshGrant(RefreshTokenGrant):
    server: LoadedServer

    def authenticate_token_endpoint_client(self) -> LoadedClient:
        return self.server.client  # the client has authenticated already

    def authenticate_refresh_token(self, refresh_token: str) -> SessionGrant:
        assert self.server.session_grant is not None, "the endpoint has loaded the session"
        return self.server.session_grant


class LoadedServer(AuthorizationServer):
    """Authlib's server for one request of `client`."""

    def __init__(
        self,
        client: LoadedClient,
        session_grant: SessionGrant | None = None,
        *,
        audiences: tuple[str, ...] = (),
        now: float = 0.0,
    ) -> None:
        """`session_grant` is the session of the code or refresh token in the request; `audiences` are the accepted
        audiences of the client's assertion; `now` is in seconds since the epoch.
        """
        super().__init__()
        self.client = client
        self.session_grant = session_grant
        self.register_grant(_CodeGrant, [S256Challenge(required=True)])
        self.register_grant(_RefreshGrant)
        self.register_client_auth_method("client_secret_basic", _check_basic)
        self.register_client_auth_method("private_key_jwt", _assertion_check(audiences, now))

    def query_client(self, client_id: str) -> LoadedClient:
        return self.client  # the endpoint has already looked it up by this id

    def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None:
        """No-op."""

    def create_oauth2_request(self, request: LoadedRequest) -> LoadedRequest:
        return request

    # Interface for endpoints

    def check_authorization(self, request: LoadedRequest) -> tuple[str, ...]:
        """Check an authorization request (RFC 6749 section 4.1.1). Returns the scopes. Raises OAuth2Error."""
        if request.values.get("response_mode", "query") != "query":
            raise InvalidRequestError("response_mode must be query")
        response_type = request.values.get("response_type")
        if response_type != "code":
            error = "unsupported_response_type" if response_type else "invalid_request"
            raise OAuth2Error("response_type must be code", error=error)
        if "request" in request.values or "request_uri" in request.values:
            raise InvalidRequestError("request objects are not supported: send the parameters themselves")
        self.get_consent_grant(request)  # type: ignore[no-untyped-call]  # Authlib has no types
        return tuple((request.scope or "").split())

    def authenticate(self, request: LoadedRequest) -> None:
        """Authenticate the client (RFC 6749 section 2.3). Raises OAuth2Error."""
        self.authenticate_client(request, list(AUTHENTICATION_METHODS))

    def check_token_request(self, request: LoadedRequest) -> tuple[str, ...]:
        """Check a token request of an authenticated client against the session of its code or refresh token. Returns
        the scopes of the access token. Raises OAuth2Error.
        """
        assert self.session_grant is not None, "the endpoint has loaded the session"
        grant = self.get_token_grant(request)
        assert isinstance(grant, _CodeGrant | _RefreshGrant), "no other grant is registered"
        grant.validate_token_request()
        session_scopes = self.session_grant.session.access.scopes
        requested = request.values.get("scope", "").split() if isinstance(grant, _RefreshGrant) else []
        return tuple(scope for scope in session_scopes if scope in requested) if requested else session_scopes


def _check_basic(query_client: Callable[[str], LoadedClient | None], request: LoadedRequest) -> LoadedClient | None:
    """Check `Authorization: Basic`. Replaces Authlib's check, which does not decode a plus sign to a space."""
    basic = basic_credentials((request.headers or {}).get("Authorization", ""))
    client = query_client(basic.client_id) if basic is not None else None
    if basic is None or client is None or not any(map(client.check_client_secret, basic.secrets)):
        return None
    return client


def _assertion_check(
    audiences: tuple[str, ...], now: float
) -> Callable[[Callable[[str], LoadedClient | None], LoadedRequest], LoadedClient | None]:
    def check(query_client: Callable[[str], LoadedClient | None], request: LoadedRequest) -> LoadedClient | None:
        form = request.form
        if form.get("client_assertion_type") != ASSERTION_TYPE or "client_assertion" not in form:
            return None
        client = query_client(form.get("client_id", ""))
        if client is None:
            return None
        request.assertion_claims = verify_assertion(client.client, form["client_assertion"], audiences, now)
        return client if request.assertion_claims is not None else None

    return check


__all__ = ["InvalidScopeError", "LoadedClient", "LoadedRequest", "LoadedServer", "OAuth2Error", "SessionGrant"]
