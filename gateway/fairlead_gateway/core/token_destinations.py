"""Decides which callers' tokens may be sent to the authorization server of an MCP server. Pure module.

An exchange (RFC 8693) sends a caller's own token, with which its recipient can call this gateway as the caller. The
recipient is named by the author of the server, who may be any tenant. So a token goes to the issuer that issued it, and
elsewhere only where the installation allows it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from fairlead_api.documents.oauth import OAuthSettings

ANYWHERE: Final = "*"
"""Entry of the setting that allows all destinations."""
SETTING: Final = "FAIRLEAD_TOKEN_EXCHANGE_ALLOWED (chart: gateway.settings.tokenExchangeAllowed)"


class TokenDestination:
    """Authorization server of one MCP server: the issuer of `settings`, or their token URL if they have one.

    `allowed` has issuers and token URLs, compared as strings. Of issuers, a slash at the end is ignored. An issuer does
    not allow a token URL, as it says nothing about whose URL that is.
    """

    def __init__(self, settings: OAuthSettings, allowed: Collection[str]) -> None:
        self.name = settings.token_url or settings.issuer
        self._issuer = "" if settings.token_url else settings.issuer.removesuffix("/")
        """Issuer from which the token endpoint is discovered; empty if the settings have a token URL."""
        self._allowed = ANYWHERE in allowed or (
            settings.token_url in allowed
            if settings.token_url
            else self._issuer in {entry.removesuffix("/") for entry in allowed}
        )

    def may_receive(self, issuer: object) -> bool:
        """Whether a token may be sent there whose claim `iss` is `issuer`; None for a token without the claim."""
        if self._allowed:
            return True
        return isinstance(issuer, str) and bool(issuer) and issuer.removesuffix("/") == self._issuer
