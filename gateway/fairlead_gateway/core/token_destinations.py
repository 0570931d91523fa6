"""Decides whether a caller's token may be sent to the authorization server of an MCP server. Pure module.

A token exchange (RFC 8693) sends the caller's own token. The recipient could use this token to call the gateway as the
caller. The recipient is chosen by the author of the McpServer, who may be any tenant. So a token is sent only to its
own issuer, and to other destinations that the installation allows.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from fairlead_api.documents.oauth import OAuthSettings

ANYWHERE: Final = "*"
"""Entry of the setting that allows all destinations."""
SETTING: Final = "FAIRLEAD_TOKEN_EXCHANGE_ALLOWED (chart: gateway.settings.tokenExchangeAllowed)"


class TokenDestination:
    """Authorization server of one MCP server: the issuer in `settings`, or the token URL if they have one.

    `allowed` contains issuers and token URLs, which are compared as strings. A trailing slash of an issuer is ignored.
    An allowed issuer does not allow a token URL, because nothing says that the URL belongs to the issuer.
    """

    def __init__(self, settings: OAuthSettings, allowed: Collection[str]) -> None:
        self.name = settings.token_url or settings.issuer
        self._issuer = "" if settings.token_url else settings.issuer.removesuffix("/")
        """Issuer from which the token endpoint is discovered; empty if the settings have a token URL."""
        self._is_allowed = ANYWHERE in allowed or (
            settings.token_url in allowed
            if settings.token_url
            else self._issuer in {entry.removesuffix("/") for entry in allowed}
        )

    def may_receive(self, issuer: object) -> bool:
        """Whether a token of `issuer` (its claim `iss`) may be sent to this authorization server; `issuer` is None for
        a token without the claim.
        """
        if self._is_allowed:
            return True
        return isinstance(issuer, str) and bool(issuer) and issuer.removesuffix("/") == self._issuer
