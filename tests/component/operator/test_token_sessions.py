"""The operator's sessions with tokens that it obtains: one grant for several sessions, one more after a refusal, and no
leftovers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from fairlead_api.documents.catalog import EventsEndpoint, HttpEndpoint
from fairlead_api.meta import ServerKey
from fairlead_mcp.errors import McpError
from fairlead_mcp.oauth.errors import INVALID_CLIENT, TOKEN_REFUSED, GrantFailed
from fairlead_operator.discovery.connector import NetworkConnector
from fairlead_operator.ports import TokenCredential
from rawserver import Reply, Request, raw_server
from token_protected_server import TokenProtectedServer
from tokenendpoint import SECRET, TokenEndpoint, token_endpoint

KEY = ServerKey("team", "tools")


@dataclass
class Protection:
    """A provider, a server that accepts its tokens, and the operator's connector."""

    provider: TokenEndpoint
    server: TokenProtectedServer
    endpoint: HttpEndpoint
    connector: NetworkConnector = field(default_factory=NetworkConnector)

    def credential(self, client_secret: str = SECRET) -> TokenCredential:
        return TokenCredential(oauth=self.provider.settings(), client_secret=client_secret)


@asynccontextmanager
async def protection() -> AsyncIterator[Protection]:
    async with token_endpoint() as provider:
        server = TokenProtectedServer(provider)
        async with raw_server(server) as listening:
            yield Protection(provider, server, HttpEndpoint(url=listening.url))


async def listing_with_a_withdrawn_token(world: Protection) -> None:
    async with world.connector.session(KEY, world.endpoint, world.credential()) as session:
        world.server.refused.add(world.server.seen[-1])
        await session.request("tools/list", b"{}")


async def test_sessions_that_overlap_share_a_grant_and_later_ones_need_another() -> None:
    async with protection() as world:
        async with (
            world.connector.session(KEY, world.endpoint, world.credential()),
            world.connector.session(KEY, world.endpoint, world.credential()),
        ):
            pass
        assert len(world.provider.grants) == 1

        async with world.connector.session(KEY, world.endpoint, world.credential()):
            pass

        assert len(world.provider.grants) == 2


async def test_a_refused_token_is_replaced_once() -> None:
    async with protection() as world:
        async with world.connector.session(KEY, world.endpoint, world.credential()):
            first = world.server.seen[-1]
            world.server.refused.add(first)

            async with world.connector.session(KEY, world.endpoint, world.credential()):
                assert world.server.seen[-1] != first

        assert len(world.provider.grants) == 2


async def test_a_server_that_refuses_each_token_gets_two_and_no_more() -> None:
    async with protection() as world:
        world.server.refuse_all = True

        with pytest.raises(GrantFailed) as failed:
            async with world.connector.session(KEY, world.endpoint, world.credential()):
                pass

        assert failed.value.cause == TOKEN_REFUSED
        assert len(world.provider.grants) == 2


async def test_a_scope_that_the_server_demands_is_requested_too() -> None:
    async with protection() as world:
        world.server.scope = "write"
        world.provider.scopes.add("write")

        async with world.connector.session(KEY, world.endpoint, world.credential()):
            pass

        assert [dict(request).get("scope") for request in world.provider.requests] == [None, "write"]


async def test_a_wrong_secret_is_a_failed_grant_and_the_server_is_not_asked() -> None:
    async with protection() as world:
        with pytest.raises(GrantFailed) as failed:
            async with world.connector.session(KEY, world.endpoint, world.credential(client_secret="wr0ng-secret")):
                pass

        assert failed.value.cause == INVALID_CLIENT
        assert "wr0ng-secret" not in str(failed.value)
        assert world.server.seen == []


async def test_an_error_that_quotes_the_token_is_masked() -> None:
    async with protection() as world:

        async def tell(request: Request, reply: Reply) -> None:
            reply.send(500, f"your token is {request.headers['authorization']}".encode())

        async with raw_server(tell) as telling:
            with pytest.raises(McpError) as failed:
                async with world.connector.session(KEY, HttpEndpoint(url=telling.url), world.credential()):
                    pass

        assert world.provider.grants[0].token not in str(failed.value)


async def test_a_token_that_is_refused_within_a_session_is_not_used_again() -> None:
    async with protection() as world:
        async with world.connector.session(KEY, world.endpoint, world.credential()):
            with pytest.raises(McpError):
                await listing_with_a_withdrawn_token(world)
            async with world.connector.session(KEY, world.endpoint, world.credential()):
                pass

        assert len(world.provider.grants) == 2


async def test_an_event_stream_gets_no_token() -> None:
    async with protection() as world:
        with pytest.raises(McpError, match="does not use streamable HTTP"):
            async with world.connector.session(KEY, EventsEndpoint(url=world.endpoint.url), world.credential()):
                pass

        assert world.provider.grants == []
