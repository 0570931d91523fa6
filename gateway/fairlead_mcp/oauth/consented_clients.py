"""OAuth clients of users' grants for one server: the client of the settings, or clients that the gateway registered."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

import msgspec

from fairlead_api.documents.catalog import Credential
from fairlead_api.documents.oauth import OAuthSettings
from fairlead_mcp.oauth.discovery import discover_issuer
from fairlead_mcp.oauth.errors import GrantFailed
from fairlead_mcp.oauth.issuer_client import IssuerClient
from fairlead_mcp.oauth.stored_grant import StoredGrant
from fairlead_mcp.oauth.token_access import TokenAccess

MAX_CLIENTS: Final = 8
"""Maximum number of clients with open connections. There are several only after a server has changed its issuer."""
REVOCATION_SECONDS: Final = 15.0
"""Time limit of a revocation, including discovery."""


class ConsentedClients:
    """Clients for token requests, each with the issuer and registration of a grant."""

    def __init__(self, settings: OAuthSettings, credential: Credential, access: TokenAccess) -> None:
        self._settings = settings
        self._credential = credential
        self._access = access
        self._clients: OrderedDict[tuple[str, ...], IssuerClient] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    def for_grant(self, grant: StoredGrant) -> IssuerClient:
        """The client of a grant. Raises GrantFailed if its secret or key is missing."""
        settings, credential = client_settings(self._settings, self._credential, grant)
        key = (settings.issuer, settings.client_id, settings.client_authentication, credential.client_secret)
        client = self._clients.pop(key, None) or IssuerClient(settings, credential, self._access)
        self._clients[key] = client
        if len(self._clients) > MAX_CLIENTS:
            _, oldest = self._clients.popitem(last=False)
            closing = asyncio.get_running_loop().create_task(oldest.aclose(), name="close a token client")
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        return client

    async def revoke(self, grant: StoredGrant) -> bool:
        """Revoke a consent at its authorization server (RFC 7009). Returns False if the server has no revocation
        endpoint, cannot be reached, or refuses: the user may then have to end the consent there.
        """
        issuer = self._settings.issuer if self._settings.token_url else grant.issuer
        if not issuer or not grant.refresh_token or issuer_of(self._settings, grant.issuer) != grant.issuer:
            return False  # a refresh token is sent only to the issuer that issued it
        try:
            async with asyncio.timeout(REVOCATION_SECONDS):
                metadata = await discover_issuer(self._access, issuer, self._settings.ca_bundle)
                url = metadata.revocation_endpoint
                return bool(url) and await self.for_grant(grant).revoke(url, grant.refresh_token)
        except (GrantFailed, TimeoutError):
            return False

    def invalidate_discovery(self) -> None:
        """Discover the endpoints again before their next use."""
        for client in self._clients.values():
            client.invalidate_discovery()

    async def aclose(self) -> None:
        while self._clients:
            _, client = self._clients.popitem()
            await client.aclose()
        await asyncio.gather(*self._closing)


def issuer_of(settings: OAuthSettings, discovered: str = "") -> str:
    """Issuer of new grants: the issuer in the settings, or else their token URL, or else the discovered issuer."""
    return settings.issuer or settings.token_url or discovered


def client_settings(
    settings: OAuthSettings, credential: Credential, grant: StoredGrant
) -> tuple[OAuthSettings, Credential]:
    """Settings and credential of a grant's client: the server's settings with the grant's issuer, and with id and
    secret of the client if the gateway registered it.
    """
    issuer = settings.issuer if settings.token_url else grant.issuer
    if settings.client_id:
        return msgspec.structs.replace(settings, issuer=issuer), credential
    registered_settings = msgspec.structs.replace(
        settings,
        issuer=issuer,
        client_id=grant.client_id,
        client_authentication=grant.client_authentication,
    )
    return registered_settings, Credential(client_secret=grant.client_secret)
