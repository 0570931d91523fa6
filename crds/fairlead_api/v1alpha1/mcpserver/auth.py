"""Authentication of Fairlead to a server: a credential from a Secret, access tokens that are obtained per server or per
caller, in exchange for the caller's token or after the caller's consent, or a key that each caller enters.

Only references are stored; values never enter a resource. This module has no I/O.
"""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from fairlead_api.v1alpha1.common import Model, SecretKey
from fairlead_api.v1alpha1.lists import Distinct
from fairlead_api.v1alpha1.mcpserver.auth_rules import (
    AUTHORIZATION_URL,
    CLIENT_SECRET,
    CONSENT_CLIENT,
    CONSENT_ENDPOINTS,
    CONSENT_SECRET,
    CONSENT_SECRET_ISSUER,
    ENDPOINT,
    ENTRA_REQUEST,
    ENTRA_TENANT,
    ID_JAG_AUDIENCE,
    ID_JAG_CLIENT,
    ISSUER,
    PARAMETERS,
    RESOURCE,
    RESOURCE_CLIENT_ISSUER,
    SCOPE,
    TOKEN_URL,
)
from fairlead_api.v1alpha1.mcpserver.key_rules import HEADER_PREFIX, HELP_URL, KEY_BEGINNING, KEY_PLACE
from fairlead_api.v1alpha1.mcpserver.spec_rules import CA_BUNDLE
from fairlead_api.v1alpha1.names import ObjectName
from fairlead_api.v1alpha1.rules import ValidationRule

_HEADER: Final = r"^[A-Za-z0-9!#$%&*+.^_|~-]+$"
_RESERVED: Final = (
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
)

HEADER_NAME = ValidationRule(
    cel=f"self.matches(r'{_HEADER}') && !(self.lowerAscii() in {list(_RESERVED)!r})",
    message="must be the name of an HTTP header for a credential, such as X-API-Key; "
    "headers of HTTP and MCP themselves cannot be used",
    holds=lambda name: re.fullmatch(_HEADER, name) is not None and name.lower() not in _RESERVED,
)


SubjectTokenType = Literal[
    "urn:ietf:params:oauth:token-type:access_token",
    "urn:ietf:params:oauth:token-type:jwt",
    "urn:ietf:params:oauth:token-type:id_token",
]
"""Types of a caller's token (RFC 8693 section 3)."""


class CredentialSource(Model):
    """One key of a Secret of the same namespace that has the label `fairlead.dev/credential: "true"`.

    If the Secret has the annotation `fairlead.dev/hosts` (comma-separated), its value is only sent to these hosts:
    `tools.example.com` (https, any port), `tools.example.com:8443`, `https://tools.example.com:8443`, or
    `http://tools.example.com:8080`. Without such an http entry, the value is sent unencrypted only to Services of the
    cluster and to loopback addresses.
    """

    atomic: ClassVar[bool] = True

    name: ObjectName
    """Name of the Secret."""
    key: SecretKey = "token"
    """Key within the Secret's data."""


class BearerAuth(Model):
    """Credential that is sent as `Authorization: Bearer VALUE`: a token or an API key."""

    secret_ref: CredentialSource
    """Secret with the token."""


class HeaderAuth(Model):
    """Credential that is sent in another header, with the Secret's value unchanged."""

    name: Annotated[str, Field(min_length=1, max_length=128), HEADER_NAME]
    """Name of the header, such as `X-API-Key`."""
    secret_ref: CredentialSource
    """Secret with the value."""


class OAuthRequest(Model):
    """Parameters of requests to an authorization server (RFC 6749)."""

    scopes: Annotated[list[Annotated[str, Field(min_length=1, max_length=256), SCOPE]], Distinct()] = Field(
        default=[], max_length=32
    )
    """Scopes to request, one per item. Absent: those that the server's challenge names, or the issuer's default."""
    parameters: Annotated[dict[str, Annotated[str, Field(max_length=2048)]], PARAMETERS] = Field(
        default={}, max_length=16
    )
    """Further parameters of the request: of the token request, such as `connector_id` of Dex, or with `userConsent` of
    the authorization request, such as `access_type` of Google."""
    ca_bundle: Annotated[str, Field(min_length=1, max_length=131072), CA_BUNDLE] | None = None
    """Certificates (PEM) that verify the issuer. Absent: the system's authorities."""


class OAuthClient(OAuthRequest):
    """Client of an authorization server (RFC 6749), and what its token requests ask for."""

    issuer: Annotated[str, Field(min_length=1, max_length=2048), ISSUER] | None = None
    """Authorization server at which the client is registered, as its metadata spells it (RFC 8414):
    `https://login.example.com/realms/team`. Without `tokenURL`, its token endpoint is discovered; a server that names
    another issuer gets no token."""
    token_url: Annotated[str, Field(min_length=1, max_length=2048), TOKEN_URL] | None = Field(
        default=None, alias="tokenURL"
    )
    """Token endpoint. Absent: discovered from `issuer`."""
    client_id: str = Field(min_length=1, max_length=512, alias="clientID")
    """Identifier of the client at the issuer."""
    audience: str | None = Field(default=None, min_length=1, max_length=2048)
    """Name of the server at the issuer, sent as `audience` (RFC 8693). Absent: not sent."""
    resource: Annotated[str, Field(min_length=1, max_length=2048), RESOURCE] | None = None
    """URL of the server or a parent of it, sent as `resource` (RFC 8707), for issuers that limit a token to the server
    by its URL. Absent: not sent, because some issuers refuse the parameter."""


class ClientCredentialsAuth(OAuthClient):
    """Access tokens that Fairlead obtains for itself with the client credentials grant (RFC 6749 section 4.4)."""

    client_authentication: Literal["client_secret_basic", "client_secret_post", "private_key_jwt"] = (
        "client_secret_basic"
    )
    """How the client authenticates to the issuer: a secret in a header, a secret in the form, or a signed JWT."""
    secret_ref: CredentialSource
    """Secret with the client's secret or, for `private_key_jwt`, its private key (PEM or JWK). The annotation
    `fairlead.dev/hosts` of this Secret is about the token endpoint."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (ENDPOINT,)


class ResourceClient(Model):
    """Client of Fairlead at the authorization server that issues tokens for the server."""

    issuer: Annotated[str, Field(min_length=1, max_length=2048), ISSUER] | None = None
    """Authorization server, as its metadata spells it (RFC 8414). Absent: the first one that the metadata of the server
    names (RFC 9728)."""
    client_id: str = Field(min_length=1, max_length=512, alias="clientID")
    """Identifier of the client there."""
    client_authentication: Literal["client_secret_basic", "client_secret_post", "private_key_jwt", "none"] = (
        "client_secret_basic"
    )
    """How the client authenticates: a secret in a header, a secret in the form, a signed JWT, or not."""
    secret_ref: CredentialSource | None = None
    """Secret with the client's secret or, for `private_key_jwt`, its private key (PEM or JWK); required except with
    `clientAuthentication: none`. Its annotation `fairlead.dev/hosts` is about the token endpoint."""
    ca_bundle: Annotated[str, Field(min_length=1, max_length=131072), CA_BUNDLE] | None = None
    """Certificates (PEM) that verify the authorization server. Absent: the system's authorities."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (CLIENT_SECRET, RESOURCE_CLIENT_ISSUER)


class TokenExchangeAuth(OAuthClient):
    """Access tokens that Fairlead obtains for each caller in exchange for the caller's own token (RFC 8693). That token
    is sent to its own issuer; to another issuer, or to a `tokenURL`, only if the installation allows it
    (`tokenExchangeAllowed`)."""

    client_authentication: Literal["client_secret_basic", "client_secret_post", "private_key_jwt", "none"] = (
        "client_secret_basic"
    )
    """How the client authenticates to the issuer: a secret in a header, a secret in the form, a signed JWT, or
    not."""
    secret_ref: CredentialSource | None = None
    """Secret with the client's secret or, for `private_key_jwt`, its private key (PEM or JWK); required except with
    `clientAuthentication: none`. The annotation `fairlead.dev/hosts` of this Secret is about the token endpoint."""
    profile: Literal["EntraOnBehalfOf", "IdJag"] | None = None
    """Variant of the grant: `EntraOnBehalfOf` is Microsoft Entra's on-behalf-of flow. `IdJag`: `issuer`
    issues an assertion (ID-JAG), for which the authorization server of the server gives the token. Absent: as in
    RFC 8693."""
    resource_client: ResourceClient | None = None
    """With `profile: IdJag`: the client at the authorization server of the server."""
    subject_token_type: SubjectTokenType | None = None
    """Type of the caller's token. Absent: an access token; with `IdJag`, for those who signed in at Fairlead, the
    provider's ID token."""
    grants_per: Literal["Person", "Agent"] = "Person"
    """`Person`: all agents of a person share a token. `Agent`: each agent of a person has its own."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ENDPOINT,
        CLIENT_SECRET,
        ENTRA_TENANT,
        ENTRA_REQUEST,
        ID_JAG_CLIENT,
        ID_JAG_AUDIENCE,
    )


class UserConsentAuth(OAuthRequest):
    """Access tokens of each person who calls: the person signs in and consents once in a browser (RFC 6749 section 4.1
    with PKCE), and Fairlead keeps the refresh token. Without any member, the authorization server is the one that the
    server names, and Fairlead registers itself there."""

    issuer: Annotated[str, Field(min_length=1, max_length=2048), ISSUER] | None = None
    """Authorization server, as its metadata spells it (RFC 8414): `https://login.example.com/realms/team`. A server
    that names another issuer gets no token. Absent: the first issuer that the server names."""
    authorization_url: Annotated[str, Field(min_length=1, max_length=2048), AUTHORIZATION_URL] | None = Field(
        default=None, alias="authorizationURL"
    )
    """Authorization endpoint, at which people sign in; together with `tokenURL`. Absent: discovered."""
    token_url: Annotated[str, Field(min_length=1, max_length=2048), TOKEN_URL] | None = Field(
        default=None, alias="tokenURL"
    )
    """Token endpoint; together with `authorizationURL`. Absent: discovered."""
    client_id: str | None = Field(default=None, min_length=1, max_length=512, alias="clientID")
    """Identifier of a client that is registered at the issuer. Absent: Fairlead registers itself, or names the document
    that describes it."""
    client_authentication: Literal["client_secret_basic", "client_secret_post", "private_key_jwt", "none"] | None = None
    """How the client authenticates to the issuer: a secret in a header, a secret in the form, a signed JWT, or not.
    Absent: `client_secret_basic` with `secretRef`, else `none`."""
    secret_ref: CredentialSource | None = None
    """Secret with the client's secret or, for `private_key_jwt`, its private key (PEM or JWK). Absent: a client without
    a secret. The annotation `fairlead.dev/hosts` of this Secret is about the token endpoint."""
    callback_port: int | None = Field(default=None, ge=1, le=65535)
    """Port of the redirect URI `http://localhost:PORT/callback` with which the client is registered, for `fairlead up`.
    Absent: the redirect URI is a page of the gateway. On a cluster, it is ignored."""
    resource: Annotated[str, Field(min_length=1, max_length=2048), RESOURCE] | None = None
    """URL of the server or a parent of it, sent as `resource` (RFC 8707). Absent: the URL that the server's metadata
    names."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (
        CONSENT_CLIENT,
        CONSENT_SECRET,
        CONSENT_SECRET_ISSUER,
        CONSENT_ENDPOINTS,
    )

    @property
    def effective_authentication(self) -> str:
        """`clientAuthentication`, or its default."""
        return self.client_authentication or ("none" if self.secret_ref is None else "client_secret_basic")


class UserKeyHeader(Model):
    """Header of requests that carries a person's key."""

    name: Annotated[str, Field(min_length=1, max_length=128), HEADER_NAME]
    """Name of the header, such as `X-API-Key` or `Authorization`."""
    prefix: Annotated[str, Field(min_length=1, max_length=64), HEADER_PREFIX] | None = None
    """Word in front of the key and a blank, such as `Bearer`. Absent: the key alone."""


class UserKeyAuth(Model):
    """A key that each user enters once, at a page of the gateway or with `fairlead login`, and with which this
    person's calls go: exactly one of `header` and `env` is set. Fairlead keeps the key sealed, like the grants of
    `userConsent`."""

    header: UserKeyHeader | None = None
    """Header that has the key, for a server with the transport `streamable-http`."""
    env: str | None = Field(default=None, min_length=1, max_length=253, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """Environment variable that has the key, for a program that Fairlead starts (`command`, `package`, or an image with
    the transport `stdio`) with `session: PerClient`: each process has the key of one user. Of letters, digits
    and `_`."""
    description: str | None = Field(default=None, min_length=1, max_length=512)
    """Description of the key for the person who enters it: `an API key with read access`."""
    help_url: Annotated[str, Field(min_length=1, max_length=2048), HELP_URL] | None = Field(
        default=None, alias="helpURL"
    )
    """Page at which a person gets the key."""
    starts_with: Annotated[list[Annotated[str, Field(min_length=1, max_length=64), KEY_BEGINNING]], Distinct()] = Field(
        default=[], max_length=8
    )
    """Beginnings of valid keys, such as `ghp_`: another text is refused before it is stored. Absent: any."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (KEY_PLACE,)


Grant = ClientCredentialsAuth | TokenExchangeAuth | UserConsentAuth
"""Ways to authenticate by access tokens that have to be obtained."""


class Auth(Model):
    """How requests to the server are authenticated: exactly one member is set."""

    bearer: BearerAuth | None = None
    """A token or API key in the `Authorization` header."""
    header: HeaderAuth | None = None
    """A value in a named header."""
    client_credentials: ClientCredentialsAuth | None = None
    """An access token that Fairlead obtains for itself, and renews. For the transport `streamable-http` only."""
    token_exchange: TokenExchangeAuth | None = None
    """An access token of the calling person, in exchange for the token that the person called Fairlead with. For the
    transport `streamable-http` only."""
    user_consent: UserConsentAuth | None = None
    """An access token of the calling person, who signs in at the server's issuer once. For the transport
    `streamable-http` only. `userConsent: {}` is enough where Fairlead can register itself."""
    user_key: UserKeyAuth | None = None
    """A key of the calling person, who enters it once."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            cel="[has(self.bearer), has(self.header), has(self.clientCredentials), has(self.tokenExchange), "
            "has(self.userConsent), has(self.userKey)].filter(x, x).size() == 1",
            message="auth: set exactly one of bearer, header, clientCredentials, tokenExchange, userConsent, userKey",
            holds=lambda auth: [*auth.members].count(None) == 5,
        ),
    )

    @property
    def members(self) -> tuple[Model | None, ...]:
        """All members, of which one is set."""
        oauth = self.client_credentials, self.token_exchange, self.user_consent
        return self.bearer, self.header, *oauth, self.user_key

    @property
    def static_value(self) -> BearerAuth | HeaderAuth | None:
        """The member whose value is from a Secret and sent as it is; else None."""
        return self.bearer or self.header

    @property
    def grant(self) -> Grant | None:
        """The member by which tokens are obtained; None for a value that is sent as it is."""
        return self.client_credentials or self.token_exchange or self.user_consent

    @property
    def of_caller(self) -> TokenExchangeAuth | UserConsentAuth | UserKeyAuth | None:
        """The member by which each caller has a credential of its own, which the operator therefore lacks; else
        None.
        """
        return self.token_exchange or self.user_consent or self.user_key

    @property
    def of_person(self) -> UserConsentAuth | UserKeyAuth | None:
        """The member for which each person signs in or enters a key; else None."""
        return self.user_consent or self.user_key


class DiscoveryAuth(Model):
    """How a server is listed whose calls are authenticated by a token of the caller: exactly one member is set."""

    bearer: BearerAuth | None = None
    """A token or API key in the `Authorization` header."""
    header: HeaderAuth | None = None
    """A value in a named header."""
    client_credentials: ClientCredentialsAuth | None = None
    """An access token that the operator obtains for itself."""
    first_grant: bool = False
    """With `auth.userConsent`, or `auth.userKey` with a header: `true` lists the server with the grant or key of the
    first person who signs in, so everybody sees the tools that this person has, and of resources, prompts and
    instructions what `discovery.shared` names. The gateway lists; the operator has no token."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            cel="[has(self.bearer), has(self.header), has(self.clientCredentials), "
            "has(self.firstGrant) && self.firstGrant].filter(x, x).size() == 1",
            message="discovery.auth: set exactly one of bearer, header, clientCredentials, firstGrant",
            holds=lambda auth: (
                [auth.bearer, auth.header, auth.client_credentials, auth.first_grant or None].count(None) == 3
            ),
        ),
    )

    @property
    def static_value(self) -> BearerAuth | HeaderAuth | None:
        """The member whose value is sent as it is; None for a grant."""
        return self.bearer or self.header

    @property
    def grant(self) -> ClientCredentialsAuth | None:
        """The member by which tokens are obtained; None for a value that is sent as it is."""
        return self.client_credentials
