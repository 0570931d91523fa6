"""Decides which credential is presented to a server: a header with a value, or tokens that a client obtains. Pure.

A cluster and a laptop read Secrets from different sources; this module decides for both how a value may be used.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

import msgspec

from fairlead_api.documents.base import sha256
from fairlead_api.documents.catalog import Credential
from fairlead_api.documents.oauth import (
    CLIENT_CREDENTIALS,
    TOKEN_EXCHANGE,
    USER_CONSENT,
    USER_KEY,
    OAuthSettings,
    ResourceClientSettings,
    UserKeySettings,
)
from fairlead_api.meta import ANNOTATION_HOSTS
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.mcpserver import (
    BearerAuth,
    CredentialSource,
    Grant,
    HeaderAuth,
    McpServerSpec,
    TokenExchangeAuth,
    UserConsentAuth,
    UserKeyAuth,
)
from fairlead_mcp.credential_hosts import hosts_allow, origin
from fairlead_operator.ports import OperatorCredential, TokenCredential

_PRIVATE_KEY: Final = re.compile(r"-----BEGIN ([A-Z0-9]+ )?PRIVATE KEY-----")
_WHITESPACE: Final = "\r\n\t "


class UnusableSecret(Exception):
    """A Secret's value may not, or cannot, be used as the spec says. The message never quotes the value."""

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause = cause


@dataclass(frozen=True)
class ReferencedSecret:
    """The key of a Secret that `spec.auth` refers to."""

    name: str
    """Name of the Secret. Empty if the value is in the server's own declaration; `key` is then its path there."""
    key: str
    value: bytes
    hosts: str | None = None
    """The annotation `fairlead.dev/hosts`; None without it."""
    version: str = ""
    """Changes with the value."""

    def __repr__(self) -> str:
        return f"ReferencedSecret({self.label})"

    @property
    def label(self) -> str:
        """Description for messages."""
        return f"key {self.key} of Secret {self.name}" if self.name else self.key


@dataclass(frozen=True)
class PresentedCredential:
    """Header or client that is presented to a server, as one member of `spec.auth` or `discovery.auth` says."""

    value: Credential | None = None
    """None for a client without a secret."""
    oauth: OAuthSettings | None = None
    """How tokens are obtained with `value`; None if `value` is sent as it is."""
    version: str = ""

    @property
    def operator_credential(self) -> OperatorCredential:
        """The credential for connections of the operator itself."""
        if self.oauth is None:
            return OperatorCredential(self.value, _digest(self.version))
        client = self.value or Credential()
        value = TokenCredential(oauth=self.oauth, client_secret=client.client_secret, private_key=client.private_key)
        return OperatorCredential(value, _digest(self.version, msgspec.json.encode(self.oauth, order="deterministic")))


def present_header(auth: BearerAuth | HeaderAuth, text: str, version: str) -> PresentedCredential:
    """The header with the value `text`, which the caller has checked."""
    headers = {auth.name: text} if isinstance(auth, HeaderAuth) else {"Authorization": f"Bearer {text}"}
    return PresentedCredential(Credential(headers=headers), version=version)


def resource_secret_of(grant: Grant) -> CredentialSource | None:
    """Reference to the secret of the client that is registered at the MCP server's own authorization server; None
    without such a client, or if it has no secret.
    """
    resource_spec = grant.resource_client if isinstance(grant, TokenExchangeAuth) else None
    return None if resource_spec is None else resource_spec.secret_ref


def present_client(
    grant: Grant, secret: ReferencedSecret | None, resource_secret: ReferencedSecret | None = None
) -> PresentedCredential:
    """The client of a grant, with its secret or private key. `secret` is None for a client without a secret;
    `resource_secret` is the one that `resource_secret_of` refers to. Raises UnusableSecret.

    Without `tokenURL`, the token endpoint is only known after the issuer's metadata has been read.
    `OAuthSettings.token_hosts` therefore contains the hosts to which the secret may be sent.
    """
    value = None if secret is None else _client_credential(grant.client_authentication, grant.token_url, secret)
    settings = _oauth_settings(grant, _hosts(secret))
    version = secret.version if secret is not None else ""
    resource_spec = grant.resource_client if isinstance(grant, TokenExchangeAuth) else None
    if resource_spec is None:
        return PresentedCredential(value, settings, version)
    if resource_secret is not None:
        client = _client_credential(resource_spec.client_authentication, None, resource_secret)
        value = msgspec.structs.replace(
            value or Credential(),
            resource_client_secret=client.client_secret,
            resource_private_key=client.private_key,
        )
        version = f"{version} {resource_secret.version}"
    resource_client = ResourceClientSettings(
        client_id=resource_spec.client_id,
        client_authentication=resource_spec.client_authentication,
        issuer=resource_spec.issuer or "",
        token_hosts=_hosts(resource_secret),
        ca_bundle=resource_spec.ca_bundle,
    )
    return PresentedCredential(value, msgspec.structs.replace(settings, resource_client=resource_client), version)


def _hosts(secret: ReferencedSecret | None) -> str:
    return (secret.hosts if secret is not None else None) or ""


def present_key(auth: UserKeyAuth) -> PresentedCredential:
    """Settings of the key that each user enters; the operator itself has no key."""
    header = auth.header
    key = UserKeySettings(
        header="" if header is None else header.name,
        prefix="" if header is None else header.prefix or "",
        env=auth.env or "",
        description=auth.description or "",
        help_url=auth.help_url or "",
        starts_with=tuple(auth.starts_with),
    )
    return PresentedCredential(oauth=OAuthSettings(grant=USER_KEY, user_key=key))


def _client_credential(authentication: str | None, token_url: str | None, secret: ReferencedSecret) -> Credential:
    """The client's secret or private key. Raises UnusableSecret."""
    _check_hosts(token_url, secret)
    try:
        text = secret.value.decode().strip(_WHITESPACE)
    except UnicodeDecodeError:
        raise UnusableSecret(Cause.SECRET_VALUE_INVALID, f"{secret.label} is not text in UTF-8") from None
    if not text:
        raise UnusableSecret(Cause.SECRET_KEY_MISSING, f"Secret {secret.name} has no value under the key {secret.key}")
    if authentication == "private_key_jwt":
        if not _is_private_key(text):
            message = (
                f"{secret.label} is not a private key: it must be a PEM text that begins with "
                "-----BEGIN PRIVATE KEY-----, or a JWK"
            )
            raise UnusableSecret(Cause.SECRET_VALUE_INVALID, message)
        return Credential(private_key=text)
    if _is_private_key(text):
        message = f"{secret.label} is a private key, which must not be sent: set clientAuthentication: private_key_jwt"
        raise UnusableSecret(Cause.SECRET_VALUE_INVALID, message)
    if not text.isprintable():
        message = f"{secret.label} is not a valid client secret: it contains line breaks or control characters"
        raise UnusableSecret(Cause.SECRET_VALUE_INVALID, message)
    return Credential(client_secret=text)


def _check_hosts(token_url: str | None, secret: ReferencedSecret) -> None:
    """Raise UnusableSecret if the Secret may not be sent to the token endpoint."""
    if secret.hosts is None:
        return
    if not secret.hosts.strip(" ,"):
        message = f"the annotation {ANNOTATION_HOSTS} of Secret {secret.name} is empty, so it may not be sent anywhere"
        raise UnusableSecret(Cause.HOST_NOT_ALLOWED, message)
    if token_url is not None and not hosts_allow(secret.hosts, token_url):
        message = (
            f"Secret {secret.name} may be sent to {secret.hosts} only, but the token endpoint is at {origin(token_url)}"
        )
        raise UnusableSecret(Cause.HOST_NOT_ALLOWED, message)


def _is_private_key(text: str) -> bool:
    """Whether a text is a private key in PEM, or a JSON Web Key with its private part (RFC 7517)."""
    if _PRIVATE_KEY.match(text):
        return True
    if not text.startswith("{"):
        return False
    try:
        key = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(key, dict) and {"kty", "d"} <= key.keys()


def _oauth_settings(grant: Grant, token_hosts: str) -> OAuthSettings:
    if isinstance(grant, UserConsentAuth):
        return OAuthSettings(
            grant=USER_CONSENT,
            client_id=grant.client_id or "",
            client_authentication=grant.effective_authentication,
            issuer=grant.issuer or "",
            authorization_url=grant.authorization_url or "",
            token_url=grant.token_url or "",
            callback_port=grant.callback_port or 0,
            scopes=tuple(grant.scopes),
            resource=grant.resource or "",
            parameters=dict(grant.parameters),
            token_hosts=token_hosts,
            ca_bundle=grant.ca_bundle,
        )
    token_exchange = grant if isinstance(grant, TokenExchangeAuth) else None
    return OAuthSettings(
        grant=CLIENT_CREDENTIALS if token_exchange is None else TOKEN_EXCHANGE,
        profile=(token_exchange and token_exchange.profile) or "",
        client_id=grant.client_id,
        client_authentication=grant.client_authentication,
        issuer=grant.issuer or "",
        token_url=grant.token_url or "",
        scopes=tuple(grant.scopes),
        audience=grant.audience or "",
        resource=grant.resource or "",
        parameters=dict(grant.parameters),
        subject_token_type=(token_exchange and token_exchange.subject_token_type) or "",
        grants_per="Person" if token_exchange is None else token_exchange.grants_per,
        token_hosts=token_hosts,
        ca_bundle=grant.ca_bundle,
    )


def call_oauth_settings(
    credential: PresentedCredential, spec: McpServerSpec, *, first_grant: bool
) -> OAuthSettings | None:
    """How tokens for calls are obtained, and whether the gateway lists the server's tools with the first user's grant.

    `first_grant` is the default of `discovery.auth.firstGrant`.
    """
    if credential.oauth is None or not spec.lists_with_first_grant(default=first_grant):
        return credential.oauth
    return msgspec.structs.replace(
        credential.oauth,
        first_grant=True,
        listing_interval_s=spec.discovery.interval.seconds,
        shared=tuple(sorted(spec.discovery.shared)),
    )


def _digest(version: str, settings: bytes = b"") -> str:
    return sha256(version.encode(), settings)[:16] if version or settings else ""
