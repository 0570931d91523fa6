"""Assertions (ID-JAG): discovery of the authorization server of an MCP server."""

from __future__ import annotations

import asyncio
import time

from fairlead_api.documents.catalog import Credential
from fairlead_api.documents.oauth import ID_JAG, TOKEN_EXCHANGE, OAuthSettings, ResourceClientSettings
from fairlead_mcp.errors import McpError
from fairlead_mcp.http.dial import resolve_by_dns
from fairlead_mcp.oauth.subject import TokenSubject
from fairlead_mcp.oauth.token_access import TokenAccess
from fairlead_mcp.oauth.token_source import TokenSource
from ports import free_port
from rawserver import Reply, Request, raw_server


async def test_persons_share_one_look_at_the_metadata_of_the_server() -> None:
    async def handle(request: Request, reply: Reply) -> None:
        reply.send(404)

    nowhere = f"http://127.0.0.1:{free_port()}"
    settings = OAuthSettings(
        grant=TOKEN_EXCHANGE,
        profile=ID_JAG,
        client_id="gateway",
        issuer=nowhere,
        resource_client=ResourceClientSettings(client_id="gateway", issuer=nowhere),
    )
    credential = Credential(client_secret="one", resource_client_secret="another")
    async with raw_server(handle) as server:
        source = TokenSource(settings, credential, TokenAccess(server_url=server.url, resolve=resolve_by_dns))
        persons = [TokenSubject(b"%d" % number, f"token of {number}", time.time() + 600) for number in range(8)]
        outcomes = await asyncio.gather(*(source.obtain(person) for person in persons), return_exceptions=True)
        await source.aclose()
    assert all(isinstance(outcome, McpError) and "step 1 of 2" in str(outcome) for outcome in outcomes)
    assert [(request.verb, request.path) for request in server.seen] == [
        ("GET", "/.well-known/oauth-protected-resource/mcp"),
        ("GET", "/.well-known/oauth-protected-resource"),
    ]
