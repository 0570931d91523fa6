"""Describes under whose credential a caller's calls go to a server. Pure module."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.oauth import AGENT, TOKEN_EXCHANGE, USER_CONSENT, USER_KEY
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.token_destinations import SETTING, TokenDestination

SHARED: Final = "the server's own credential, the same for all callers"
_PERSONAL_CREDENTIALS: Final = {
    USER_CONSENT: "the caller's own access token, for which the caller signs in at the server",
    USER_KEY: "the key that the caller entered for the server",
}
"""Texts by grant, for servers that see each person as themselves."""
_NO_CREDENTIALS: Final = {
    "anonymous": "none: the caller has no token that could be exchanged for one of the server",
    "apiKey": "none: an API key cannot be exchanged for a token of the server; call with a token of the identity "
    "provider",
}
"""Texts by kind of identity, for callers without a token to exchange."""


def credential_for(catalog: Catalog, identity: Identity, allowed_servers: Collection[str]) -> str | None:
    """The credential in words; None if the server is called without one. `allowed_servers`: authorization
    servers that the installation allows callers' tokens to be sent to.
    """
    oauth = catalog.oauth
    if oauth is None:
        return None if catalog.credential is None else SHARED
    if oauth.grant in _PERSONAL_CREDENTIALS:
        return _PERSONAL_CREDENTIALS[oauth.grant]
    if oauth.grant != TOKEN_EXCHANGE:
        return f"the gateway's own access token, by client credentials of {oauth.client_id}"
    if identity.kind in _NO_CREDENTIALS:
        return _NO_CREDENTIALS[identity.kind]
    if identity.issued_here and not identity.session:
        return "none: a token that the gateway issued without a sign-in at the provider cannot be exchanged"
    issuer, destination = identity.claims.get("iss"), TokenDestination(oauth, allowed_servers)
    if isinstance(issuer, str) and not destination.may_receive(issuer):
        return f"none: the caller's token may not be sent to {destination.name}, which is not in {SETTING}"
    agent_note = "; each agent has its own" if oauth.grants_per == AGENT else ""
    return f"the caller's own access token, for which {oauth.client_id} exchanges the caller's token{agent_note}"
