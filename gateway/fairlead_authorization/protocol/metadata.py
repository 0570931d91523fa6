"""Metadata of the authorization server (RFC 8414), and the paths of its endpoints. No I/O."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

import msgspec

AUTHORIZE: Final = "/oauth/authorize"
CALLBACK: Final = "/oauth/callback/"
"""Path before the provider's name. Each provider has its own redirect URI (RFC 9700 section 4.4.2.2)."""
CONSENT: Final = "/oauth/consent"
TOKEN: Final = "/oauth/token"  # noqa: S105  # a path, not a secret
REVOKE: Final = "/oauth/revoke"
REGISTER: Final = "/oauth/register"
JWKS: Final = "/oauth/jwks"
_OAUTH: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ID_JAG_PROFILE: Final = "urn:ietf:params:oauth:grant-profile:id-jag"
AUTHENTICATION_METHODS: Final = ("none", "client_secret_basic", "client_secret_post", "private_key_jwt")
ASSERTION_ALGORITHMS: Final = ("ES256", "RS256", "PS256", "EdDSA", "Ed25519")
"""Algorithms of clients' assertions. All are asymmetric."""


class ServerMetadata(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Metadata (RFC 8414 section 2), with the members of OpenID Connect Discovery for clients that read the document at
    OpenID's path. Clients get no ID tokens.
    """

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    revocation_endpoint: str
    registration_endpoint: str = ""
    scopes_supported: tuple[str, ...] = ()
    response_types_supported: tuple[str, ...]
    response_modes_supported: tuple[str, ...]
    grant_types_supported: tuple[str, ...]
    authorization_grant_profiles_supported: tuple[str, ...] = ()
    token_endpoint_auth_methods_supported: tuple[str, ...]
    token_endpoint_auth_signing_alg_values_supported: tuple[str, ...]
    revocation_endpoint_auth_methods_supported: tuple[str, ...]
    code_challenge_methods_supported: tuple[str, ...]
    authorization_response_iss_parameter_supported: bool
    client_id_metadata_document_supported: bool
    subject_types_supported: tuple[str, ...]
    id_token_signing_alg_values_supported: tuple[str, ...]


def server_metadata(
    issuer: str,
    scopes: Collection[str],
    *,
    takes_documents: bool,
    allows_registration: bool,
    takes_assertions: bool = False,
    takes_workloads: bool = False,
) -> ServerMetadata:
    """Create the document. `takes_documents`: whether a client id may be the URL of a document; `allows_registration`:
    whether clients may register themselves; `takes_assertions`, `takes_workloads`: whether identity assertions and
    tokens of ServiceAccounts are exchanged.
    """
    base = issuer.rstrip("/")
    more_grants = (JWT_BEARER,) if takes_assertions or takes_workloads else ()
    return ServerMetadata(
        issuer=issuer,
        authorization_endpoint=base + AUTHORIZE,
        token_endpoint=base + TOKEN,
        jwks_uri=base + JWKS,
        revocation_endpoint=base + REVOKE,
        registration_endpoint=base + REGISTER if allows_registration else "",
        scopes_supported=tuple(scopes),
        response_types_supported=("code",),
        response_modes_supported=("query",),
        grant_types_supported=("authorization_code", "refresh_token", *more_grants),
        authorization_grant_profiles_supported=(ID_JAG_PROFILE,) if takes_assertions else (),
        token_endpoint_auth_methods_supported=AUTHENTICATION_METHODS,
        token_endpoint_auth_signing_alg_values_supported=ASSERTION_ALGORITHMS,
        revocation_endpoint_auth_methods_supported=AUTHENTICATION_METHODS,
        code_challenge_methods_supported=("S256",),
        authorization_response_iss_parameter_supported=True,
        client_id_metadata_document_supported=takes_documents,
        subject_types_supported=("public",),
        id_token_signing_alg_values_supported=("ES256",),
    )


def metadata_paths(issuer: str) -> frozenset[str]:
    """Paths of the document. The well-known path of RFC 8414 (section 3.1) and of OpenID Connect before the issuer's
    path, and after it (OpenID Connect Discovery 1.0 section 4); also without the issuer's path, which proxies may
    remove.
    """
    path = urlsplit(issuer).path.rstrip("/")
    return frozenset({_OAUTH, _OPENID, _OAUTH + path, _OPENID + path, path + _OPENID})
