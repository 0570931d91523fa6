"""OAuth settings in a catalog: how the gateway obtains an access token, or a person's key, for calls of one server.

No secrets: the client's secret or private key is in the `Credential` that the catalog refers to.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_api.documents.base import DocumentStruct

CLIENT_CREDENTIALS: Final = "clientCredentials"
"""The gateway gets a token for itself (RFC 6749 section 4.4)."""
TOKEN_EXCHANGE: Final = "tokenExchange"  # noqa: S105  # the name of a grant, not a secret
"""The caller's token is exchanged for one of the server (RFC 8693)."""
USER_CONSENT: Final = "userConsent"
"""Each person consents once in a browser (RFC 6749 section 4.1), and the gateway renews the access token by the refresh
token that it keeps for the person.
"""
USER_KEY: Final = "userKey"
"""Each person enters a key of their own once, which the gateway keeps and sends with the person's calls."""
ENTRA_ON_BEHALF_OF: Final = "EntraOnBehalfOf"
"""Profile of `tokenExchange`: Microsoft Entra's on-behalf-of flow (RFC 7523 section 2.1 with Entra's parameters)."""
ID_JAG: Final = "IdJag"
"""Profile of `tokenExchange`: by an assertion of the identity provider for the authorization server of the MCP server
(draft-ietf-oauth-identity-assertion-authz-grant).
"""
PERSON: Final = "Person"
AGENT: Final = "Agent"
STANDARD_PARAMETERS: Final = frozenset(
    {
        "actor_token",
        "actor_token_type",
        "assertion",
        "audience",
        "client_assertion",
        "client_assertion_type",
        "client_id",
        "client_secret",
        "code",
        "code_challenge",
        "code_challenge_method",
        "code_verifier",
        "device_code",
        "grant_type",
        "password",
        "redirect_uri",
        "refresh_token",
        "request",
        "request_uri",
        "requested_token_type",
        "requested_token_use",
        "resource",
        "response_mode",
        "response_type",
        "scope",
        "state",
        "subject_token",
        "subject_token_type",
        "username",
    }
)
"""Parameters of token and authorization requests, in lower case, that `parameters` must not contain (RFC 6749,
RFC 7523, RFC 7636, RFC 8693, RFC 8707, RFC 9101): they would replace the credential, the person or the target of a
grant.
"""


class UserKeySettings(DocumentStruct, kw_only=True, frozen=True):
    """Key that each user enters for a server, and where it goes: exactly one of `header` and `env` is set."""

    header: str = ""
    """Header of requests that has the key."""
    prefix: str = ""
    """Word in front of the key and a blank; empty: none."""
    env: str = ""
    """Environment variable of the server's processes that has the key."""
    description: str = ""
    """Description of the key in words of the server's author; may be empty."""
    help_url: str = ""
    """Page at which a person gets the key; empty: unknown."""
    starts_with: tuple[str, ...] = ()
    """Beginnings of valid keys; empty: any."""


class ResourceClientSettings(DocumentStruct, kw_only=True, frozen=True):
    """Client of the gateway at the authorization server of an MCP server, with the profile `IdJag`."""

    client_id: str
    client_authentication: str = "client_secret_basic"
    issuer: str = ""
    """Empty only without a secret: then the first issuer that the server names."""
    token_hosts: str = ""
    """Hosts to which the secret may be sent; empty: any."""
    ca_bundle: str | None = None


class OAuthSettings(DocumentStruct, kw_only=True, frozen=True):
    """How to get an access token for one server. An empty text is an absent value."""

    grant: str
    """`clientCredentials`, `tokenExchange`, `userConsent` or `userKey`."""
    profile: str = ""
    """Variant of the grant: `EntraOnBehalfOf` or `IdJag`; empty: as in the RFC."""
    client_id: str = ""
    """Empty with `userKey`, and with `userConsent` if the gateway registers itself, or names the document that
    describes it."""
    client_authentication: str = "client_secret_basic"
    """`client_secret_basic`, `client_secret_post`, `private_key_jwt` or `none` (OpenID Connect Core 1.0 section 9)."""
    issuer: str = ""
    """Authorization server at which the client is registered. Discovery may find this issuer's endpoints, but never
    another issuer. Empty only if `token_url` is set, or with `userConsent`: then the first issuer that the server
    names.
    """
    token_url: str = ""
    """Token endpoint; empty to discover it from `issuer`, which the server's challenge must name."""
    scopes: tuple[str, ...] = ()
    audience: str = ""
    """`audience` of the token request (RFC 8693 section 2.1)."""
    resource: str = ""
    """`resource` of the token request (RFC 8707): the server's URL or a parent of it. Empty: not sent, but with
    `userConsent` the URL that the server's metadata names.
    """
    parameters: dict[str, str] = msgspec.field(default_factory=dict)
    """Further parameters of the token request, with `userConsent` of the authorization request; none of them is a
    standard parameter.
    """
    subject_token_type: str = ""
    """Type URI of the caller's token (RFC 8693 section 3); empty: an access token, or with `IdJag` the ID token of a
    caller who signed in at the gateway.
    """
    authorization_url: str = ""
    """With `userConsent`: authorization endpoint; empty to discover it. Set together with `token_url`."""
    callback_port: int = 0
    """With `userConsent` on a laptop: port of 127.0.0.1 that the client's redirect URI is registered with; 0: any."""
    first_grant: bool = False
    """With `userConsent` or `userKey`: whether the server is listed with the first grant or key that a person made or
    entered for it, by the gateway (`fairlead_api.reports.GrantedListing`).
    """
    listing_interval_s: float = 0.0
    """With `first_grant`: age in seconds at which the gateway reads the lists again."""
    shared: tuple[str, ...] = ()
    """With `first_grant`: what the gateway reads beside the tools: `resources`, `resourceTemplates`, `prompts`,
    `skills` and `instructions`.
    """
    grants_per: str = PERSON
    """`Person`: all agents of a person share a token; `Agent`: each agent of a person has its own."""
    resource_client: ResourceClientSettings | None = None
    """With the profile `IdJag`: the client at the authorization server of the MCP server; else None."""
    token_hosts: str = ""
    """Hosts to which the client's secret may be sent: the value of the Secret's annotation `fairlead.dev/hosts`; empty:
    any.
    """
    user_key: UserKeySettings | None = None
    """With `userKey`: what is entered, and where it goes; else None."""
    ca_bundle: str | None = None
    """PEM certificates that verify the authorization server; None: the system's."""

    @property
    def of_person(self) -> bool:
        """Whether each person signs in, or enters a key."""
        return self.grant in (USER_CONSENT, USER_KEY)
