"""The console as a client of an OpenID provider. Pure module: what the settings say, checked at the start."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from fairlead_api.bad_setting import BadSetting
from fairlead_gateway.identity.configuration import Issuer, Vouchers, is_loopback
from fairlead_gateway.settings import Settings

if TYPE_CHECKING:
    from fairlead_gateway.identity.tokens import Tokens


class ConsoleClient(msgspec.Struct, frozen=True, kw_only=True):
    """A registered client (RFC 6749 section 2)."""

    issuer: Issuer
    client_id: str
    client_secret: str
    """Empty for a public client, which proves itself by PKCE alone."""
    scopes: tuple[str, ...]
    """Scopes to ask for, `openid` first."""
    base: str
    """Origin that browsers reach the console at, such as `https://tools.example.com`."""
    resource: str
    """Resource that access tokens are asked for (RFC 8707); empty where the issuer decides that."""

    def __repr__(self) -> str:
        return f"ConsoleClient({self.client_id!r} of {self.issuer.issuer!r})"

    @property
    def provider(self) -> str:
        """Host of the issuer, by which people know it."""
        return urlsplit(self.issuer.issuer).netloc


class ConsoleSignIn(msgspec.Struct, frozen=True):
    """The console's client, and the verifier of its issuer's tokens."""

    client: ConsoleClient
    tokens: Tokens


def console_client(settings: Settings, vouchers: Vouchers) -> ConsoleClient | None:
    """The client that the settings describe; None without FAIRLEAD_CONSOLE_CLIENT_ID. Raises BadSetting."""
    if not settings.console_client_id:
        given = [
            name
            for name in ("console_client_secret", "console_scopes", "console_issuer", "console_url")
            if getattr(settings, name)
        ]
        if given:
            raise BadSetting(
                f"FAIRLEAD_{given[0].upper()} is about signing in to the console: set FAIRLEAD_CONSOLE_CLIENT_ID too"
            )
        return None
    issuer = _issuer(settings, vouchers)
    base = _base(settings)
    scopes = dict.fromkeys(("openid", *vouchers.scopes, *settings.console_scopes))
    return ConsoleClient(
        issuer=issuer,
        client_id=settings.console_client_id,
        client_secret=settings.console_client_secret,
        scopes=tuple(scopes),
        base=base,
        resource="" if issuer.audiences else settings.public_url.rstrip("/"),
    )


def _issuer(settings: Settings, vouchers: Vouchers) -> Issuer:
    if not vouchers.issuers:
        raise BadSetting(
            "FAIRLEAD_CONSOLE_CLIENT_ID needs an OpenID provider: name it under `issuers` in the file FAIRLEAD_IDENTITY"
        )
    wanted = settings.console_issuer
    found = [issuer for issuer in vouchers.issuers if not wanted or wanted in issuer.names]
    if len(found) == 1:
        return found[0]
    known = ", ".join(issuer.name or issuer.issuer for issuer in vouchers.issuers[:8])
    raise BadSetting(f"FAIRLEAD_CONSOLE_ISSUER must be one issuer of {settings.identity}: {known}")


def _base(settings: Settings) -> str:
    name = "FAIRLEAD_CONSOLE_URL" if settings.console_url else "FAIRLEAD_PUBLIC_URL"
    base = (settings.console_url or settings.public_url).rstrip("/")
    if not base:
        raise BadSetting(
            "the provider sends browsers back to the console: set FAIRLEAD_CONSOLE_URL to where they reach it, such as "
            "https://tools.example.com"
        )
    parts = urlsplit(base)
    if parts.path or parts.query or parts.fragment or parts.username is not None or not parts.hostname:
        raise BadSetting(f"{name}: {base!r} is not a scheme and a host: set FAIRLEAD_CONSOLE_URL, with no path in it")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname)):
        raise BadSetting(f"{name}: {base!r} must be an https URL: codes and sessions of the console come that way")
    return base
