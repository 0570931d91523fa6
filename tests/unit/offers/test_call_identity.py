"""Words about the credential that a call goes to a server with."""

from __future__ import annotations

import pytest

from fairlead_api.documents.catalog import Catalog, HttpEndpoint
from fairlead_api.documents.oauth import CLIENT_CREDENTIALS, USER_CONSENT, USER_KEY, OAuthSettings
from fairlead_gateway.core.identity import Identity
from fairlead_offers.catalogs.call_identity import credential_for


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (OAuthSettings(grant=USER_KEY), "the key that the caller entered for the server"),
        (OAuthSettings(grant=USER_CONSENT), "for which the caller signs in at the server"),
        (OAuthSettings(grant=CLIENT_CREDENTIALS, client_id="fairlead"), "by client credentials of fairlead"),
    ],
)
def test_the_credential_is_named_by_the_servers_grant(settings: OAuthSettings, words: str) -> None:
    catalog = Catalog(
        namespace="default",
        name="books",
        uid="u",
        generation=1,
        endpoint=HttpEndpoint(url="http://x/mcp"),
        protocol_version="2026-07-28",
        tools=(),
        oauth=settings,
    )
    described = credential_for(catalog, Identity(kind="apiKey", principal="npc"), ())
    assert described is not None
    assert described.endswith(words)
