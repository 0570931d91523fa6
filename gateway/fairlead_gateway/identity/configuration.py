"""The file that says who vouches for clients: `FAIRLEAD_IDENTITY`. Read once at the start by `setup`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from fairlead_api.bad_setting import BadSetting
from fairlead_gateway.yaml_files import read_yaml
from fairlead_mcp.addresses import is_loopback

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
"""Asymmetric algorithms, all of them: the right to check a token must not be the power to make one."""

Text = Annotated[str, Meta(min_length=1)]


class Issuer(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """An OpenID provider or authorization server whose tokens are taken."""

    issuer: Text
    """As it stands in `iss`; its keys are discovered from there."""
    name: Annotated[str, Meta(max_length=63, pattern=r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?)?$")] = ""
    """Short name for policies and settings, such as `corp`; `issuer` itself is one too."""
    audiences: tuple[Text, ...] = ()
    """Values of `aud`, one of which a token must have. By default the gateway's own address and what is below it
    (RFC 8707).
    """
    jwks_uri: str = ""
    """Where the keys are, in place of discovery."""
    algorithms: tuple[str, ...] = ("RS256", "PS256", "ES256", "EdDSA", "Ed25519")
    agent_claims: tuple[Text, ...] = ("azp", "client_id")
    """The first of them that a token has names the agent; a token without them is let in as no agent. A dot leads into
    objects.
    """
    groups_claim: Text = "groups"
    leeway_seconds: Annotated[int, Meta(ge=0, le=300)] = 30
    """By which its clock may differ from ours."""
    allow_http: bool = False
    """Whether it may be asked for its keys without TLS, elsewhere than on this machine. Everybody on the way can then
    put in keys of their own, and with them make tokens.
    """
    ca_file: Path | None = None
    """Certificates that its own is checked with, in place of the system's."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the issuer in policies and settings."""
        return (self.issuer, self.name) if self.name else (self.issuer,)


class ServiceAccounts(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Tokens of ServiceAccounts, which the API server reviews."""

    audiences: Annotated[tuple[Text, ...], Meta(min_length=1)] = ("fairlead",)
    """One of which a token must be made for."""
    seconds: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    """How long a review holds."""


class Vouchers(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The whole file."""

    issuers: tuple[Issuer, ...] = ()
    scopes: tuple[Text, ...] = ()
    """That every token of an issuer must have."""
    service_accounts: ServiceAccounts | None = None


def load_vouchers(path: Path | None) -> Vouchers:
    """From a YAML file; nobody without one. Raises BadSetting with a sentence that names the place."""
    if path is None:
        return Vouchers()
    try:
        vouchers = msgspec.convert(read_yaml(path, "the issuers of FAIRLEAD_IDENTITY") or {}, Vouchers, dec_hook=_path)
    except msgspec.ValidationError as error:
        raise BadSetting(f"{path} must hold the members issuers, scopes or serviceAccounts: {error}") from error
    for issuer in vouchers.issuers:
        _check(path, issuer)
    if len({issuer.issuer for issuer in vouchers.issuers}) < len(vouchers.issuers):
        raise BadSetting(f"{path} names an issuer twice")
    short = [issuer.name for issuer in vouchers.issuers if issuer.name]
    if len(set(short)) < len(short):
        raise BadSetting(f"{path} gives two issuers the same name")
    return vouchers


def _check(path: Path, issuer: Issuer) -> None:
    for url in (issuer.issuer, issuer.jwks_uri or issuer.issuer):
        if urlsplit(url).scheme not in ("http", "https"):
            raise BadSetting(f"{path}: {url} must be an https URL")
        if not is_private(url, issuer):
            raise BadSetting(
                f"{path}: {url} must be an https URL: without TLS a man in the middle can put in keys of his own. "
                f"If that is meant, write `allowHttp: true` beside the issuer"
            )
    wrong = [name for name in issuer.algorithms if name not in ALGORITHMS]
    if wrong or not issuer.algorithms:
        complaint = f"{wrong[0]!r} is not taken" if wrong else "there is none"
        raise BadSetting(
            f"{path}: algorithms of {issuer.issuer}: {complaint}; asymmetric ones are {', '.join(ALGORITHMS)}"
        )


def is_private(url: str, issuer: Issuer) -> bool:
    """Whether nobody on the way can alter what a URL of an issuer answers, or the configuration allows for that: it is
    https, or plain http on this machine where the issuer itself is there.
    """
    parts = urlsplit(url)
    if parts.scheme == "https" or issuer.allow_http:
        return parts.scheme in ("http", "https")
    own = urlsplit(issuer.issuer)
    hosts = (parts.hostname or "", own.hostname or "")
    return parts.scheme == own.scheme == "http" and all(map(is_loopback, hosts))


def _path(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise NotImplementedError(kind)
