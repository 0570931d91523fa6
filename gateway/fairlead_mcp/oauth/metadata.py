"""Metadata of protected resources (RFC 9728) and of authorization servers (RFC 8414, OpenID Connect Discovery 1.0): its
URLs, and which documents are acceptable. No I/O.

A client, its secret and its key belong to one issuer, which the settings name. Metadata can add the endpoints of this
issuer, but never name another issuer: otherwise, a server could direct the secret to itself.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from fairlead_mcp import jsonrpc
from fairlead_mcp.credential_hosts import is_confidential
from fairlead_mcp.http.reading import plain_address
from fairlead_mcp.http.target import InvalidTarget, Target
from fairlead_mcp.oauth.errors import BAD_ANSWER, DISCOVERY, ISSUER_MISMATCH, GrantFailed
from fairlead_mcp.oauth.scopes import bounded_scopes

RESOURCE_METADATA: Final = "/.well-known/oauth-protected-resource"
_SERVER_METADATA: Final = "/.well-known/oauth-authorization-server"
_OPENID_METADATA: Final = "/.well-known/openid-configuration"
_MAX_QUOTED_ISSUERS: Final = 3
_OTHER_CLIENT: Final = (
    "the client is registered at {}: a client belongs to one issuer, so register one there and set its issuer, "
    "clientID and secretRef"
)
_OTHER_SIGN_IN: Final = "the sign-in is at {}: correct the server's issuer, if it is set, and sign in again"
_MAX_URL: Final = 2_048
_MAX_ISSUER: Final = 512


class ProtectedResourceMetadata(msgspec.Struct, frozen=True):
    """Members of a protected resource's metadata that are used (RFC 9728 section 2)."""

    resource: str
    authorization_servers: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    """`scopes_supported`."""


class AuthorizationServerMetadata(msgspec.Struct, frozen=True):
    """Members of an authorization server's metadata that are used (RFC 8414 section 2). An endpoint is empty if it is
    missing or unusable.
    """

    issuer: str
    token_endpoint: str
    authentication_methods: tuple[str, ...] = ()
    """`token_endpoint_auth_methods_supported`."""
    authorization_endpoint: str = ""
    registration_endpoint: str = ""
    revocation_endpoint: str = ""
    has_s256: bool = True
    """Whether PKCE with S256 is supported (RFC 7636): False only if the metadata names other methods."""
    scopes: tuple[str, ...] = ()
    """`scopes_supported`."""
    sends_issuer: bool = False
    """Whether authorization responses contain `iss` (RFC 9207 section 3)."""
    takes_documents: bool = False
    """Whether a client id may be the URL of a document about the client (`client_id_metadata_document_supported`)."""


class _ResourceMembers(msgspec.Struct, frozen=True):
    resource: str
    authorization_servers: tuple[str, ...] = ()
    scopes_supported: Any = None


class _ServerMembers(msgspec.Struct, frozen=True):
    """Members of type `Any` are ignored if they have another type than that in RFC 8414."""

    issuer: str
    token_endpoint: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = ()
    authorization_endpoint: Any = None
    registration_endpoint: Any = None
    revocation_endpoint: Any = None
    code_challenge_methods_supported: Any = None
    scopes_supported: Any = None
    authorization_response_iss_parameter_supported: Any = None
    client_id_metadata_document_supported: Any = None


_resource_metadata: Final = msgspec.json.Decoder(_ResourceMembers).decode
_server_metadata: Final = msgspec.json.Decoder(_ServerMembers).decode


def resource_metadata_path(server: Target, url: str) -> bytes:
    """Path of the `resource_metadata` URL in a server's challenge. Raises GrantFailed if the URL is at another origin
    than the server.
    """
    parts = server.at_own_origin(url)
    if parts is None or "://" not in url:
        raise GrantFailed(
            f"the server's challenge names metadata at {plain_address(url)}, which is not read, because it is not at "
            "the server's own origin; set tokenURL or correct the server",
            cause=DISCOVERY,
        )
    return Target.from_url(f"http://any{parts.path or '/'}" + (f"?{parts.query}" if parts.query else "")).path


def resource_metadata_paths(server: Target) -> tuple[bytes, ...]:
    """The well-known paths of a server's metadata: with the server's own path, then without (RFC 9728 section 3.1)."""
    own_path = server.path.partition(b"?")[0].rstrip(b"/")
    root = RESOURCE_METADATA.encode()
    return (root + own_path, root) if own_path else (root,)


def read_resource_metadata(body: bytes) -> ProtectedResourceMetadata | None:
    """Decode the metadata of a protected resource; None if the document is something else."""
    try:
        members = _resource_metadata(body)
    except jsonrpc.UNREADABLE:
        return None
    return ProtectedResourceMetadata(
        members.resource, members.authorization_servers, bounded_scopes(_strings(members.scopes_supported))
    )


def other_resource_failure(metadata: ProtectedResourceMetadata, server: Target) -> GrantFailed:
    """The failure for metadata that is about another resource than the server."""
    return GrantFailed(
        f"the metadata of the server at {server.authority.decode('latin-1')} is about another resource, "
        f"{plain_address(metadata.resource)}; set tokenURL or correct the server",
        cause=DISCOVERY,
    )


def covers(resource: str, server: Target) -> bool:
    """Whether a resource identifier is the server's URL or a parent of that URL at the same origin.

    This is less strict than RFC 9728 section 3.3, because many servers name their origin.
    """
    parts = server.at_own_origin(resource) if "://" in resource else None
    if parts is None or "#" in resource or parts.query:
        return False
    own_path = server.path.partition(b"?")[0].decode().rstrip("/") + "/"
    return own_path.startswith(parts.path.rstrip("/") + "/")


def require_issuer(metadata: ProtectedResourceMetadata, issuer: str, *, consent: bool = False) -> None:
    """Raise GrantFailed if a server names authorization servers, but not the client's issuer. `consent`: whether
    users sign in there.

    A trailing slash makes no difference here: URL types of SDKs add one, and nothing is sent to the named servers.
    """
    issuers = metadata.authorization_servers
    if issuers and issuer.rstrip("/") not in [name.rstrip("/") for name in issuers]:
        names = ", ".join(_excerpt(name) for name in issuers[:_MAX_QUOTED_ISSUERS])
        advice = _OTHER_SIGN_IN if consent else _OTHER_CLIENT
        raise GrantFailed(f"the server accepts tokens of {names}, but {advice.format(issuer)}", cause=ISSUER_MISMATCH)


def named_issuer(metadata: ProtectedResourceMetadata | None, server_url: str) -> str:
    """The first issuer that a server names; if it names none, the server's origin (MCP 2025-03-26)."""
    if metadata is not None and metadata.authorization_servers:
        return metadata.authorization_servers[0]
    parts = urlsplit(server_url)
    return f"{parts.scheme}://{parts.netloc}"


def well_known_urls(issuer: str) -> tuple[str, ...]:
    """The URLs of an issuer's metadata: with the issuer's path inserted (RFC 8414 section 3.1, and likewise for OpenID
    Connect), then with the path in front (OpenID Connect Discovery 1.0 section 4).
    """
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    urls = (f"{origin}{_SERVER_METADATA}{path}", f"{origin}{_OPENID_METADATA}{path}")
    return (*urls, f"{origin}{path}{_OPENID_METADATA}") if path else urls


def server_metadata_urls(issuer: str) -> tuple[str, ...]:
    """The `well_known_urls` of an issuer. Raises GrantFailed if the issuer is not a usable URL."""
    try:
        parts = urlsplit(issuer)
        Target.from_url(issuer)
        if len(issuer) > _MAX_ISSUER:
            raise ValueError("it is too long")
    except (ValueError, InvalidTarget) as error:
        raise GrantFailed(f"the issuer {_excerpt(issuer)!r} is not an http or https URL", cause=DISCOVERY) from error
    if parts.query or parts.fragment:
        raise GrantFailed(f"the issuer {_excerpt(issuer)!r} must not have a query or fragment", cause=DISCOVERY)
    require_confidential(issuer, "issuer")
    return well_known_urls(issuer)


def read_server_metadata(
    body: bytes, issuer: str, url: str, *, named_by_server: bool = False
) -> AuthorizationServerMetadata:
    """Decode the metadata of an issuer from a document at `url`. Raises GrantFailed unless its `issuer` equals the
    client's as a string (RFC 8414 section 3.3) and it has a token endpoint.

    `named_by_server`: a trailing slash of the issuer makes no difference, as in `require_issuer`.
    """
    try:
        members = _server_metadata(body)
    except jsonrpc.UNREADABLE as error:
        message = f"{url} is not metadata of an authorization server: set tokenURL, or correct the issuer"
        raise GrantFailed(message, cause=BAD_ANSWER) from error
    is_same = members.issuer == issuer or (named_by_server and members.issuer.rstrip("/") == issuer.rstrip("/"))
    if not is_same:
        raise GrantFailed(
            f"the metadata at {url} is of the issuer {_excerpt(members.issuer)}, but the client is registered at "
            f"{issuer}: both must be equal, to the last slash",
            cause=ISSUER_MISMATCH,
        )
    require_confidential(members.token_endpoint, "token endpoint")
    methods = members.code_challenge_methods_supported
    return AuthorizationServerMetadata(
        members.issuer,
        members.token_endpoint,
        members.token_endpoint_auth_methods_supported,
        authorization_endpoint=_url(members.authorization_endpoint),
        registration_endpoint=_url(members.registration_endpoint),
        revocation_endpoint=_url(members.revocation_endpoint),
        has_s256=methods is None or "S256" in _strings(methods),
        scopes=bounded_scopes(_strings(members.scopes_supported)),
        sends_issuer=members.authorization_response_iss_parameter_supported is True,
        takes_documents=members.client_id_metadata_document_supported is True,
    )


def require_confidential(url: str, name: str) -> None:
    """Raise GrantFailed if requests to `url`, which contain secrets, would be readable on the network."""
    if not is_confidential(url):
        raise GrantFailed(
            f"the {name} {plain_address(url)} must be an https URL, unless it is on this machine or in this cluster",
            cause=DISCOVERY,
        )


def _excerpt(name: str) -> str:
    """Beginning of a name from metadata, on one line without control characters."""
    return jsonrpc.excerpt(name.encode("utf-8", "replace"))


def _strings(value: Any) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _url(value: Any) -> str:
    """The URL in a member; empty if it is not usable."""
    is_usable = isinstance(value, str) and len(value) <= _MAX_URL and value.isascii() and value.isprintable()
    return value if isinstance(value, str) and is_usable and " " not in value else ""
