"""Tokens of a server by an assertion of the identity provider (ID-JAG): where the second step goes."""

from __future__ import annotations

import asyncio

from fairlead_api.documents.oauth import ID_JAG, TOKEN_EXCHANGE, ResourceClientSettings
from fairlead_mcp.oauth.errors import DISCOVERY, GrantFailed
from fairlead_mcp.oauth.token_source import TokenSource
from rawserver import Reply, Request, raw_server
from tokenendpoint import token_access
from tokenworld import world


async def nothing(request: Request, reply: Reply) -> None:
    reply.send(404)


async def test_persons_share_the_search_for_the_authorization_server_of_a_server() -> None:
    own = ResourceClientSettings(client_id="wiki", client_authentication="none")
    async with world() as tools, raw_server(nothing) as server:
        settings = tools.provider.settings(TOKEN_EXCHANGE, profile=ID_JAG, resource_client=own)
        source = TokenSource(settings, tools.provider.credential(), token_access(server.url))
        calls = [source.obtain(tools.person(f"person {number}")) for number in range(20)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [answer.cause for answer in answers if isinstance(answer, GrantFailed)] == [DISCOVERY] * 20
        looks = [request.path for request in server.seen]
        assert sorted(looks) == sorted(set(looks)), "each place is asked once for all of them"
        await source.aclose()
