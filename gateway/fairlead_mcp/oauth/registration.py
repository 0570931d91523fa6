"""Request and answer of the registration of the gateway as a client (RFC 7591). No I/O."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from fairlead_mcp import jsonrpc
from fairlead_mcp.oauth.client_authentication import BASIC, NONE, POST
from fairlead_mcp.oauth.errors import BAD_ANSWER, CONFIGURATION, PROVIDER_ERROR, GrantFailed
from fairlead_mcp.oauth.metadata import AuthorizationServerMetadata
from fairlead_mcp.oauth.stored_grant import StoredGrant

CLIENT_NAME: Final = "Fairlead"
"""Client name that authorization servers show to users who are asked for consent."""
GRANT_TYPES: Final = ("authorization_code", "refresh_token")
_METHODS: Final = (NONE, POST, BASIC)
"""Authentication methods of a registered client, the preferred first. POST is preferred to BASIC, because authorization
servers with the Python SDK read the secret only from the form when a token is revoked.
"""
_MAX_ID: Final = 512
_ID_OR_SECRET: Final = re.compile(r"[\x20-\x7e]+")
"""Valid client id or secret (RFC 6749 appendix A)."""
_MAX_SECONDS: Final = 1e11
_PORT_CALLBACK: Final = "/callback"
"""Path of the redirect URI of a client that a user registers for a port of the user's machine."""
_EXAMPLE_PORT: Final = 8765


class _ClientInformation(msgspec.Struct, frozen=True):
    """Client information response (RFC 7591 section 3.2.1)."""

    client_id: str
    client_secret: str | None = None
    client_secret_expires_at: Any = None
    token_endpoint_auth_method: Any = None


class _RegistrationError(msgspec.Struct, frozen=True):
    """Client registration error response (RFC 7591 section 3.2.2)."""

    error: Any = None
    error_description: Any = None


_read_client: Final = msgspec.json.Decoder(_ClientInformation).decode
_read_error: Final = msgspec.json.Decoder(_RegistrationError).decode


def authentication_method(metadata: AuthorizationServerMetadata) -> str:
    """Authentication method of a registered client: `none` if that is supported, because it needs no secret. An
    authorization server that names no methods supports `client_secret_basic` (RFC 8414 section 2).
    """
    supported_methods = metadata.authentication_methods or (BASIC,)
    return next((method for method in _METHODS if method in supported_methods), NONE)


def registration_request(redirect_uri: str, method: str, scopes: tuple[str, ...]) -> bytes:
    """Client metadata (RFC 7591 section 2), with `application_type` of OpenID Connect, which MCP requires (SEP-837)."""
    members: dict[str, Any] = {
        "client_name": CLIENT_NAME,
        "redirect_uris": [redirect_uri],
        "grant_types": GRANT_TYPES,
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        "application_type": "native" if is_loopback(redirect_uri) else "web",
    }
    if scopes:
        members["scope"] = " ".join(scopes)
    return msgspec.json.encode(members)


def read_registration(status: int, body: bytes, issuer: str, redirect_uri: str, method: str, now: float) -> StoredGrant:
    """The registration in the answer to a request with `method`, received at `now` in seconds since the epoch. Raises
    GrantFailed.
    """
    if status not in (200, 201):
        raise _refusal(status, body, issuer, redirect_uri)
    try:
        members = _read_client(body)
    except jsonrpc.UNREADABLE as error:
        raise _unusable(issuer, redirect_uri) from error
    secret = members.client_secret or ""
    assigned_method = members.token_endpoint_auth_method or method  # a server may assign another method
    assigned_method = assigned_method if secret else NONE
    expires_at = members.client_secret_expires_at
    registration = StoredGrant(
        issuer,
        members.client_id,
        client_secret="" if assigned_method == NONE else secret,
        client_authentication=assigned_method if isinstance(assigned_method, str) else "",
        client_expires_at=float(expires_at) if _is_time(expires_at) and assigned_method != NONE else 0.0,
        granted_at=now,
        redirect_uri=redirect_uri,
    )
    texts = (registration.client_id, registration.client_secret or "-")
    is_usable = all(len(text) <= _MAX_ID and _ID_OR_SECRET.fullmatch(text) for text in texts)
    if not is_usable or registration.client_authentication not in _METHODS or not registration.fits:
        raise _unusable(issuer, redirect_uri)
    return registration


def is_current(registration: StoredGrant, now: float) -> bool:
    """Whether a registered client has not expired."""
    return registration.client_expires_at == 0 or now < registration.client_expires_at


def manual_registration_failure(issuer: str, why: str, redirect_uri: str, cause: str = CONFIGURATION) -> GrantFailed:
    """The failure for an authorization server at which the gateway cannot register itself."""
    return GrantFailed(f"the authorization server {issuer} {why}: {_manual_registration(redirect_uri)}", cause=cause)


def _manual_registration(redirect_uri: str) -> str:
    """Advice how to register a client by hand and configure it: in `mcp.json` on a laptop, else in an McpServer.

    A laptop's own redirect URI contains the gateway's port and the server's name, which may change. The advice has a
    redirect URI with a port that the user may choose instead.
    """
    if not is_loopback(redirect_uri):
        return (
            f"register a client there by hand, with the redirect URI {redirect_uri}, and set its id as the server's "
            "clientID, and its secret, if it has one, with issuer and secretRef"
        )
    parts = urlsplit(redirect_uri)
    port = parts.port if parts.path == _PORT_CALLBACK and parts.port else _EXAMPLE_PORT
    return (
        "register a client there by hand, for an installed program, with the redirect URI "
        f"http://localhost:{port}{_PORT_CALLBACK} (with any port), and set in the server's entry in mcp.json "
        "its id as oauth.clientId, the port as oauth.callbackPort, and its secret, if it has one, as "
        "oauth.clientSecret with oauth.issuer"
    )


def is_loopback(url: str) -> bool:
    """Whether a redirect URI leads to the user's own machine (RFC 8252 section 7.3)."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value <= _MAX_SECONDS


def _refusal(status: int, body: bytes, issuer: str, redirect_uri: str) -> GrantFailed:
    if status >= 500 or status == 429:
        text = f"the authorization server {issuer} failed to register the gateway (status {status}): try again later"
        return GrantFailed(text, cause=PROVIDER_ERROR)
    if status in (401, 403):
        return manual_registration_failure(
            issuer, f"registers only clients that it was configured for (status {status})", redirect_uri
        )
    try:
        members = _read_error(body)
    except jsonrpc.UNREADABLE:
        members = _RegistrationError()
    texts = [text for text in (members.error, members.error_description) if isinstance(text, str) and text]
    problem = ": ".join(jsonrpc.excerpt(text.encode("utf-8", "replace")) for text in texts) or f"status {status}"
    return manual_registration_failure(issuer, f"does not register the gateway ({problem})", redirect_uri)


def _unusable(issuer: str, redirect_uri: str) -> GrantFailed:
    problem = "answered the gateway's registration without a usable client"
    return manual_registration_failure(issuer, problem, redirect_uri, BAD_ANSWER)
