"""Clients without any set-up, which identify themselves by the URL of their document."""

from __future__ import annotations

import json
from pathlib import Path

from authorizationworld import Attempt, authorization_world
from clientdocuments import CLAUDE, CLAUDE_CODE
from fairlead_authorization.clients.client import ClientUnavailable
from fairlead_authorization.clients.client_ids import DocumentAddress
from fairlead_authorization.clients.fetching import FetchedMetadata

SERVER = {"clientHosts": ["claude.ai"]}


async def test_client_with_a_document_is_an_agent_that_nobody_has_set_up(tmp_path: Path) -> None:
    urls: list[str] = []

    async def fetch(address: DocumentAddress, max_bytes: int) -> FetchedMetadata:
        urls.append(address.url)
        return FetchedMetadata(json.dumps(CLAUDE).encode(), 600.0)

    async with authorization_world(tmp_path, server=SERVER, client_documents=fetch) as world:
        attempt = Attempt(CLAUDE["client_id"], CLAUDE["redirect_uris"][0])
        page = await world.come_back(await world.authorize(attempt))
        assert "claude.ai" in page.text
        tokens = await world.sign_in(attempt)
        identity = await world.gateway.endpoint.identities.identify(f"Bearer {tokens['access_token']}".encode())
        assert getattr(identity, "agent", None) == "claude.ai/oauth/mcp-oauth-client-metadata"
        stranger = Attempt("https://evil.example/client.json", "https://evil.example/back")
        assert (await world.authorize(stranger)).status == 400
        assert urls == [CLAUDE["client_id"]]


async def test_person_is_told_that_the_host_of_a_document_is_away(tmp_path: Path) -> None:
    async def fetch(address: DocumentAddress, max_bytes: int) -> FetchedMetadata:
        raise ClientUnavailable(f"{address.url} cannot be fetched")

    async with authorization_world(tmp_path, server=SERVER, client_documents=fetch) as world:
        page = await world.authorize(Attempt(CLAUDE_CODE["client_id"], "http://localhost:50000/callback"))
        assert (page.status, page.location) == (503, "")
        assert page.headers["retry-after"]
        status, refusal = await world.token({"grant_type": "refresh_token", "client_id": CLAUDE_CODE["client_id"]})
        assert (status, refusal["error"]) == (503, "temporarily_unavailable")
