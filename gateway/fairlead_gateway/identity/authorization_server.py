"""Configuration of the authorization server in front of the providers: its part of `FAIRLEAD_IDENTITY`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Text = Annotated[str, Meta(min_length=1)]


class OidcProviderClient(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The gateway as a client of one OpenID provider."""

    issuer: Text
    """Name or URL of one of `issuers`."""
    client_id: Text
    client_secret_file: Path | None = None
    """File with the client's secret; without it the client is public and has PKCE alone."""
    scopes: tuple[Text, ...] = ("profile", "email", "groups", "offline_access")
    """Scopes to request besides `openid`."""


class ConfiguredClient(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Client that an administrator names."""

    id: Text
    name: str = ""
    redirect_uris: Annotated[tuple[Text, ...], Meta(min_length=1)]
    secret_sha256: Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?$")] = ""
    """SHA-256 of the client's secret; without it the client is public."""
    keys: tuple[dict[str, Any], ...] = ()
    """Public keys with which the client signs (`private_key_jwt`)."""


class ClientRegistrationSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Registration by clients themselves (RFC 7591)."""

    redirect_hosts: Annotated[tuple[Text, ...], Meta(min_length=1)]
    """Hosts that redirect URIs may have; `localhost` stands for all loopback addresses."""
    days: Annotated[int, Meta(ge=1, le=3650)] = 90
    """Lifetime of a registration."""


class AuthorizationServer(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Authorization server of the gateway, whose issuer is `FAIRLEAD_PUBLIC_URL`."""

    providers: Annotated[tuple[OidcProviderClient, ...], Meta(min_length=1)]
    client_hosts: tuple[Text, ...] = ()
    """Hosts whose client ID metadata documents are fetched, such as `claude.ai`; `*` is any. Empty: none are."""
    clients: tuple[ConfiguredClient, ...] = ()
    registration: ClientRegistrationSettings | None = None
    """None: clients cannot register themselves."""
    agents: dict[str, Text] = {}
    """Client id by the name that policies have for the agent. A document without a name is the agent HOST/PATH."""
    token_seconds: Annotated[int, Meta(ge=60, le=600)] = 600
    """Lifetime of an access token."""
    grace_seconds: Annotated[int, Meta(ge=0, le=600)] = 60
    """Seconds in which a refresh token that was used gives the same successor again."""
    session_hours: Annotated[int, Meta(ge=1, le=8760)] = 720
    """Longest session whose person the provider renews."""
    unrenewed_hours: Annotated[int, Meta(ge=1, le=12)] = 12
    """Longest session of a person for whom the provider gave no refresh token."""
    assertions: tuple[Text, ...] = ()
    """Names or URLs of `issuers` whose identity assertions (ID-JAG) are exchanged for access tokens."""
    workloads: Literal["deny", "allow"] = "deny"
    """Whether tokens of ServiceAccounts are exchanged for access tokens."""
