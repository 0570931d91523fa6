"""Checks the settings of the console as an OpenID Connect client. No I/O."""

from __future__ import annotations

from urllib.parse import urlsplit

from fairlead_api.bad_setting import BadSetting
from fairlead_console.settings import ConsoleSettings
from fairlead_gateway.identity.console_client import ConsoleClient
from fairlead_gateway.identity.issuers_file import CredentialIssuers, Issuer
from fairlead_gateway.identity.settings import IdentitySettings
from fairlead_mcp.addresses import is_loopback


def console_client(
    settings: ConsoleSettings, identity: IdentitySettings, credential_issuers: CredentialIssuers
) -> ConsoleClient | None:
    """The OpenID Connect client of the console; None without FAIRLEAD_CONSOLE_CLIENT_ID. Raises BadSetting."""
    if not settings.client_id:
        names = [name for name in ("client_secret", "scopes", "issuer", "url") if getattr(settings, name)]
        if names:
            raise BadSetting(
                f"FAIRLEAD_CONSOLE_{names[0].upper()} configures the sign-in to the console, which needs a client: set "
                "FAIRLEAD_CONSOLE_CLIENT_ID too"
            )
        return None
    issuer = _issuer(settings, identity, credential_issuers)
    base = _base(settings, identity)
    scopes = dict.fromkeys(("openid", *credential_issuers.scopes, *settings.scopes))
    return ConsoleClient(
        issuer=issuer,
        client_id=settings.client_id,
        client_secret=settings.client_secret,
        scopes=tuple(scopes),
        base=base,
        resource="" if issuer.audiences else identity.public_url.rstrip("/"),
    )


def _issuer(settings: ConsoleSettings, identity: IdentitySettings, credential_issuers: CredentialIssuers) -> Issuer:
    if not credential_issuers.issuers:
        raise BadSetting(
            "FAIRLEAD_CONSOLE_CLIENT_ID needs an OpenID provider: name it under `issuers` in the file FAIRLEAD_IDENTITY"
        )
    wanted_name = settings.issuer
    issuers = [issuer for issuer in credential_issuers.issuers if not wanted_name or wanted_name in issuer.names]
    if len(issuers) == 1:
        return issuers[0]
    names = ", ".join(issuer.name or issuer.issuer for issuer in credential_issuers.issuers[:8])
    raise BadSetting(f"FAIRLEAD_CONSOLE_ISSUER must be one issuer of {identity.file}: {names}")


def _base(settings: ConsoleSettings, identity: IdentitySettings) -> str:
    name = "FAIRLEAD_CONSOLE_URL" if settings.url else "FAIRLEAD_PUBLIC_URL"
    base = (settings.url or identity.public_url).rstrip("/")
    if not base:
        raise BadSetting(
            "the OpenID provider redirects browsers to the console: set FAIRLEAD_CONSOLE_URL to its public URL, such "
            "as https://tools.example.com"
        )
    parts = urlsplit(base)
    if parts.path or parts.query or parts.fragment or parts.username is not None or not parts.hostname:
        raise BadSetting(
            f"{name}: {base!r} must consist of only scheme and host: set FAIRLEAD_CONSOLE_URL to a URL without a path"
        )
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname)):
        raise BadSetting(
            f"{name}: {base!r} must be an https URL, because browsers send sign-in codes and session cookies to it"
        )
    return base
