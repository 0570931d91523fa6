"""Reads the file that `FAIRLEAD_IDENTITY` names, which configures the issuers whose tokens the gateway accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from fairlead_api.bad_setting import BadSetting
from fairlead_api.yaml_files import read_yaml
from fairlead_gateway.identity.authorization_server import (
    AuthorizationServer,
    ClientRegistrationSettings,
    ConfiguredClient,
    OidcProviderClient,
)
from fairlead_gateway.identity.misspelt_members import advice_for
from fairlead_mcp.addresses import is_loopback
from fairlead_mcp.misread_values import explain_misreading

ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
)
"""Accepted algorithms. All are asymmetric, so that a key that verifies tokens cannot sign them."""

Text = Annotated[str, Meta(min_length=1)]


class Issuer(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """An OpenID provider or authorization server whose tokens are accepted."""

    issuer: Text
    """URL of the issuer, as in the claim `iss`; its keys are discovered from it."""
    name: Annotated[str, Meta(max_length=63, pattern=r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?)?$")] = ""
    """Short name for policies and settings, such as `corp`. They may also use the URL."""
    audiences: tuple[Text, ...] = ()
    """Accepted values of `aud`, one of which a token must have. Default: the gateway's own URL and all URLs below it
    (RFC 8707).
    """
    jwks_uri: str = ""
    """URL of the issuer's keys; discovered if empty."""
    algorithms: tuple[str, ...] = ("RS256", "PS256", "ES256", "EdDSA", "Ed25519")
    agent_claims: tuple[Text, ...] = ("azp", "client_id")
    """Claims with the name of the agent; the first one in a token is used. A token without them is accepted without an
    agent. A dot separates the names of nested objects.
    """
    groups_claim: Text = "groups"
    leeway_seconds: Annotated[int, Meta(ge=0, le=300)] = 30
    """Seconds by which the clocks of issuer and gateway may differ."""
    allow_http: bool = False
    """Whether keys may be fetched over the network without TLS. Anybody on the path can then replace the keys and so
    issue tokens.
    """
    ca_file: Path | None = None
    """CA certificates that verify the issuer's TLS certificate, instead of the system's."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the issuer in policies and settings."""
        return (self.issuer, self.name) if self.name else (self.issuer,)


class ServiceAccounts(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Tokens of ServiceAccounts, which are verified by TokenReviews of the API server."""

    audiences: Annotated[tuple[Text, ...], Meta(min_length=1)] = ("fairlead",)
    """Accepted audiences, one of which a token must have."""
    seconds: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    """Seconds for which the result of a review is cached."""


class CredentialIssuers(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Content of the file that `FAIRLEAD_IDENTITY` names: all issuers of clients' credentials."""

    issuers: tuple[Issuer, ...] = ()
    scopes: tuple[Text, ...] = ()
    """Scopes that every token of an issuer must have."""
    service_accounts: ServiceAccounts | None = None
    authorization_server: AuthorizationServer | None = None
    """The gateway's own authorization server; None if clients get their tokens from `issuers` directly."""


_OBJECTS: Final[dict[str, type[msgspec.Struct]]] = {
    "the file": CredentialIssuers,
    "issuers": Issuer,
    "serviceAccounts": ServiceAccounts,
    "authorizationServer": AuthorizationServer,
    "authorizationServer.providers": OidcProviderClient,
    "authorizationServer.clients": ConfiguredClient,
    "authorizationServer.registration": ClientRegistrationSettings,
}
"""Struct of each object in the file, by the object's path."""


def load_credential_issuers(path: Path | None) -> CredentialIssuers:
    """Read the YAML file; without a path there are no issuers. Raises BadSetting, whose message names the file."""
    if path is None:
        return CredentialIssuers()
    try:
        credential_issuers = msgspec.convert(
            read_yaml(path, "the issuers of FAIRLEAD_IDENTITY") or {}, CredentialIssuers, dec_hook=_path
        )
    except msgspec.ValidationError as error:
        raise BadSetting(
            f"{path} must have the members issuers, scopes, serviceAccounts or authorizationServer: "
            f"{explain_misreading(error, 'the file')}{advice_for(error, _OBJECTS)}"
        ) from error
    for issuer in credential_issuers.issuers:
        _check(path, issuer)
    if len({issuer.issuer for issuer in credential_issuers.issuers}) < len(credential_issuers.issuers):
        raise BadSetting(f"{path} names an issuer twice")
    short_names = [issuer.name for issuer in credential_issuers.issuers if issuer.name]
    if len(set(short_names)) < len(short_names):
        raise BadSetting(f"{path} gives two issuers the same name")
    if server := credential_issuers.authorization_server:
        names = [issuer.names for issuer in credential_issuers.issuers]
        mistake = server.find_mistake(names, service_accounts=credential_issuers.service_accounts is not None)
        if mistake:
            raise BadSetting(f"{path}: authorizationServer: {mistake}")
    return credential_issuers


def _check(path: Path, issuer: Issuer) -> None:
    for url in (issuer.issuer, issuer.jwks_uri or issuer.issuer):
        if urlsplit(url).scheme not in ("http", "https"):
            raise BadSetting(f"{path}: {url} must be an https URL")
        if not is_private(url, issuer):
            raise BadSetting(
                f"{path}: {url} must be an https URL: without TLS anybody on the network path can replace the keys. "
                f"To allow http, set `allowHttp: true` of the issuer"
            )
    unsupported = [name for name in issuer.algorithms if name not in ALGORITHMS]
    if unsupported or not issuer.algorithms:
        complaint = f"{unsupported[0]!r} is not supported" if unsupported else "the list is empty"
        raise BadSetting(f"{path}: algorithms of {issuer.issuer}: {complaint}; supported are {', '.join(ALGORITHMS)}")


def is_private(url: str, issuer: Issuer) -> bool:
    """Whether a URL of an issuer may be fetched: an https URL, or an http URL if `allow_http` is set, or an http URL of
    this machine if the issuer is on this machine too.
    """
    parts = urlsplit(url)
    if parts.scheme == "https" or issuer.allow_http:
        return parts.scheme in ("http", "https")
    issuer_parts = urlsplit(issuer.issuer)
    hosts = (parts.hostname or "", issuer_parts.hostname or "")
    return parts.scheme == issuer_parts.scheme == "http" and all(map(is_loopback, hosts))


def _path(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise NotImplementedError(kind)
