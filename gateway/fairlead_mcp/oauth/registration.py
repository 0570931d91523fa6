"""Registration of the gateway as a client at an authorization server (RFC 7591): request and answer. No I/O."""

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
"""Name that the person is asked to give access to."""
GRANT_TYPES: Final = ("authorization_code", "refresh_token")
_METHODS: Final = (NONE, POST, BASIC)
"""Methods by which a registered client authenticates, the preferred first. Authorization servers of the Python SDK read
a secret from the form alone when they revoke.
"""
_MAX_ID: Final = 512
_USABLE: Final = re.compile(r"[\x20-\x7e]+")
"""Client id or secret (RFC 6749 appendix A)."""
_MAX_SECONDS: Final = 1e11
_PORT_CALLBACK: Final = "/callback"
"""Path of the redirect URI at a port of the person's own machine that a client is registered with."""
_EXAMPLE_PORT: Final = 8765


class _Registered(msgspec.Struct, frozen=True):
    """Client information response (RFC 7591 section 3.2.1)."""

    client_id: str
    client_secret: str | None = None
    client_secret_expires_at: Any = None
    token_endpoint_auth_method: Any = None


class _Refused(msgspec.Struct, frozen=True):
    error: Any = None
    error_description: Any = None


_read_registered: Final = msgspec.json.Decoder(_Registered).decode
_read_refused: Final = msgspec.json.Decoder(_Refused).decode


def authentication_method(metadata: AuthorizationServerMetadata) -> str:
    """The method that a client is registered with: `none` where that is supported, for then there is no secret. An
    authorization server that names no methods has `client_secret_basic` (RFC 8414 section 2).
    """
    named = metadata.authentication_methods or (BASIC,)
    return next((method for method in _METHODS if method in named), NONE)


def registration_request(redirect_uri: str, method: str, scopes: tuple[str, ...]) -> bytes:
    """Client metadata (RFC 7591 section 2), with `application_type` of OpenID Connect, as MCP wants it (SEP-837)."""
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
    """Read the answer to a registration with `method`, at `now` in seconds since the epoch. Raises GrantFailed."""
    if status not in (200, 201):
        raise _refusal(status, body, issuer, redirect_uri)
    try:
        members = _read_registered(body)
    except jsonrpc.UNREADABLE as error:
        raise _unusable(issuer, redirect_uri) from error
    secret = members.client_secret or ""
    given = members.token_endpoint_auth_method or method  # a server may replace what was asked for
    given = given if secret else NONE
    expires_at = members.client_secret_expires_at
    registered = StoredGrant(
        issuer,
        members.client_id,
        client_secret="" if given == NONE else secret,
        client_authentication=given if isinstance(given, str) else "",
        client_expires_at=float(expires_at) if _is_time(expires_at) and given != NONE else 0.0,
        granted_at=now,
        redirect_uri=redirect_uri,
    )
    texts = (registered.client_id, registered.client_secret or "-")
    usable = all(len(text) <= _MAX_ID and _USABLE.fullmatch(text) for text in texts)
    if not usable or registered.client_authentication not in _METHODS or not registered.fits:
        raise _unusable(issuer, redirect_uri)
    return registered


def is_current(registration: StoredGrant, now: float) -> bool:
    """Whether a registered client has not expired."""
    return registration.client_expires_at == 0 or now < registration.client_expires_at


def by_hand(issuer: str, why: str, redirect_uri: str, cause: str = CONFIGURATION) -> GrantFailed:
    """Make the failure for an authorization server at which the gateway cannot register itself."""
    return GrantFailed(f"the authorization server {issuer} {why}: {_registered_by_hand(redirect_uri)}", cause=cause)


def _registered_by_hand(redirect_uri: str) -> str:
    """Advice for a client of one's own: on a laptop in words of its `mcp.json`, elsewhere in those of an McpServer.

    The redirect URI of a laptop's gateway has its port and the server's name, which change, so another one is named.
    """
    if not is_loopback(redirect_uri):
        return (
            f"register a client there by hand, with the redirect URI {redirect_uri}, and set its id as clientID of "
            "the server, and its secret, if it has one, with issuer and secretRef"
        )
    parts = urlsplit(redirect_uri)
    port = parts.port if parts.path == _PORT_CALLBACK and parts.port else _EXAMPLE_PORT
    return (
        "register a client there by hand, for an installed program, with the redirect URI "
        f"http://localhost:{port}{_PORT_CALLBACK}, at any port you like, and set in the server's entry of mcp.json "
        "its id as oauth.clientId, the port as oauth.callbackPort, and its secret, if it has one, as "
        "oauth.clientSecret with oauth.issuer"
    )


def is_loopback(url: str) -> bool:
    """Whether a redirect URI leads to the person's own machine (RFC 8252 section 7.3)."""
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
        return by_hand(issuer, f"registers only clients that it was told of before (status {status})", redirect_uri)
    try:
        members = _read_refused(body)
    except jsonrpc.UNREADABLE:
        members = _Refused()
    words = [text for text in (members.error, members.error_description) if isinstance(text, str) and text]
    problem = ": ".join(jsonrpc.excerpt(text.encode("utf-8", "replace")) for text in words) or f"status {status}"
    return by_hand(issuer, f"does not register the gateway ({problem})", redirect_uri)


def _unusable(issuer: str, redirect_uri: str) -> GrantFailed:
    why = "answered the gateway's registration with no client that can be used"
    return by_hand(issuer, why, redirect_uri, BAD_ANSWER)
