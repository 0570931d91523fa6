"""Metadata of protected resources (RFC 9728) and of authorization servers (RFC 8414, OpenID Connect Discovery 1.0):
where it is, and which of it is acceptable. No I/O.

A client, its secret and its key belong to one issuer, which the settings name. Metadata can add the endpoints of this
issuer, but never another issuer: otherwise a server could have the secret sent to itself.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

import msgspec

from fairlead_mcp import jsonrpc
from fairlead_mcp.credential_hosts import is_confidential
from fairlead_mcp.http.reading import plain_address
from fairlead_mcp.http.target import InvalidTarget, Target
from fairlead_mcp.oauth.errors import BAD_ANSWER, DISCOVERY, ISSUER_MISMATCH, GrantFailed

RESOURCE_METADATA: Final = "/.well-known/oauth-protected-resource"
_SERVER_METADATA: Final = "/.well-known/oauth-authorization-server"
_OPENID_METADATA: Final = "/.well-known/openid-configuration"
_SHOWN_ISSUERS: Final = 3


class ProtectedResourceMetadata(msgspec.Struct, frozen=True):
    """Metadata of a protected resource (RFC 9728 section 2), as far as it matters here."""

    resource: str
    authorization_servers: tuple[str, ...] = ()


class AuthorizationServerMetadata(msgspec.Struct, frozen=True):
    """Metadata of an authorization server (RFC 8414 section 2), as far as it matters here."""

    issuer: str
    token_endpoint: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = ()


_resource_metadata: Final = msgspec.json.Decoder(ProtectedResourceMetadata).decode
_server_metadata: Final = msgspec.json.Decoder(AuthorizationServerMetadata).decode


def resource_metadata_path(server: Target, url: str) -> bytes:
    """Return the path of the `resource_metadata` URL in a server's challenge. Raises GrantFailed unless the URL has the
    origin of the server.
    """
    parts = server.at_own_origin(url)
    if parts is None or "://" not in url:
        raise GrantFailed(
            f"the server's challenge names metadata at {plain_address(url)}, which is not at the server's "
            "own origin and is not read; set tokenURL or correct the server",
            cause=DISCOVERY,
        )
    return Target.from_url(f"http://any{parts.path or '/'}" + (f"?{parts.query}" if parts.query else "")).path


def resource_metadata_paths(server: Target) -> tuple[bytes, ...]:
    """Return the well-known paths of a server's metadata: with the server's own path, then without (RFC 9728 section
    3.1).
    """
    own = server.path.partition(b"?")[0].rstrip(b"/")
    root = RESOURCE_METADATA.encode()
    return (root + own, root) if own else (root,)


def read_resource_metadata(body: bytes) -> ProtectedResourceMetadata | None:
    """Read a document; None if it is not metadata of a protected resource."""
    try:
        return _resource_metadata(body)
    except jsonrpc.UNREADABLE:
        return None


def other_resource(metadata: ProtectedResourceMetadata, server: Target) -> GrantFailed:
    """Make the failure for metadata that is about another resource than the server."""
    return GrantFailed(
        f"the metadata of the server at {server.authority.decode('latin-1')} is about another resource, "
        f"{plain_address(metadata.resource)}; set tokenURL or correct the server",
        cause=DISCOVERY,
    )


def includes(resource: str, server: Target) -> bool:
    """Whether a resource identifier is the server's URL or a parent of it at the same origin.

    That is less strict than RFC 9728 section 3.3, as many servers name their origin.
    """
    parts = server.at_own_origin(resource) if "://" in resource else None
    if parts is None or "#" in resource or parts.query:
        return False
    own = server.path.partition(b"?")[0].decode().rstrip("/") + "/"
    return own.startswith(parts.path.rstrip("/") + "/")


def require_issuer(metadata: ProtectedResourceMetadata, issuer: str) -> None:
    """Raise GrantFailed if a server names authorization servers, but not the client's issuer.

    A slash at the end makes no difference here: URL types of SDKs add one, and nothing is sent to what a server names.
    """
    named = metadata.authorization_servers
    if named and issuer.rstrip("/") not in [name.rstrip("/") for name in named]:
        others = ", ".join(_excerpt(name) for name in named[:_SHOWN_ISSUERS])
        raise GrantFailed(
            f"the server takes tokens of {others}, but the client is registered at {issuer}: a client belongs to one "
            "issuer, so register one there and set its issuer, clientID and secretRef",
            cause=ISSUER_MISMATCH,
        )


def server_metadata_urls(issuer: str) -> tuple[str, ...]:
    """Return the URLs of an issuer's metadata: path-inserted of RFC 8414 section 3.1 and of OpenID Connect, then
    path-appended (OpenID Connect Discovery 1.0 section 4). Raises GrantFailed for an unusable issuer.
    """
    try:
        parts = urlsplit(issuer)
        Target.from_url(issuer)
    except (ValueError, InvalidTarget) as error:
        raise GrantFailed(f"the issuer {_excerpt(issuer)!r} is not an http or https URL", cause=DISCOVERY) from error
    if parts.query or parts.fragment:
        raise GrantFailed(f"the issuer {_excerpt(issuer)!r} must not have a query or fragment", cause=DISCOVERY)
    require_confidential(issuer, "issuer")
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    inserted = (f"{origin}{_SERVER_METADATA}{path}", f"{origin}{_OPENID_METADATA}{path}")
    return (*inserted, f"{origin}{path}{_OPENID_METADATA}") if path else inserted


def read_server_metadata(body: bytes, issuer: str, url: str) -> AuthorizationServerMetadata:
    """Read the metadata of an issuer, from a document at `url`. Raises GrantFailed unless its `issuer` equals the
    client's as a string (RFC 8414 section 3.3) and it has a token endpoint.
    """
    try:
        metadata = _server_metadata(body)
    except jsonrpc.UNREADABLE as error:
        message = f"{url} is not metadata of an authorization server: set tokenURL, or correct the issuer"
        raise GrantFailed(message, cause=BAD_ANSWER) from error
    if metadata.issuer != issuer:
        raise GrantFailed(
            f"the metadata at {url} is of the issuer {_excerpt(metadata.issuer)}, but the client is registered at "
            f"{issuer}: both must be equal, to the last slash",
            cause=ISSUER_MISMATCH,
        )
    require_confidential(metadata.token_endpoint, "token endpoint")
    return metadata


def require_confidential(url: str, name: str) -> None:
    """Raise GrantFailed if requests to `url`, which have secrets, would be readable on the network."""
    if not is_confidential(url):
        raise GrantFailed(
            f"the {name} {plain_address(url)} must be an https URL, except on this machine or cluster",
            cause=DISCOVERY,
        )


def _excerpt(name: str) -> str:
    """Beginning of a name from metadata, on one line without control characters."""
    return jsonrpc.excerpt(name.encode("utf-8", "replace"))
