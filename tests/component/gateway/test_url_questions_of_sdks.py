"""Pages that servers ask users to open, with the Python SDK's clients and servers of each era."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import mcp_types as types
import pytest
from mcp import Client, MCPError, UrlElicitationRequiredError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.transport_security import TransportSecuritySettings

from gatewayworld import LEGACY, catalog, running
from pageworld import ERROR, PAGE, QUESTION, REASON, SERVERS, page_world
from toolservers import serve_asgi

Mode = Literal["legacy", "auto"]


class Person:
    """Callbacks of an SDK's client that open each page."""

    def __init__(self) -> None:
        self.shown: list[types.ElicitRequestURLParams] = []
        self.server: Any = None
        """The server of the pages, which has an attribute `opened`."""

    async def __call__(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestURLParams)
        self.shown.append(params)
        self.server.opened = True
        return types.ElicitResult(action="accept")


class SdkServer:
    """The SDK's server with a tool that raises -32042, and a tool that asks during the call."""

    def __init__(self) -> None:
        self.opened = False
        self.url = ""

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        server = MCPServer("pages")

        @server.tool()
        async def error() -> str:
            if not self.opened:
                params = types.ElicitRequestURLParams(message=REASON, url=PAGE, elicitation_id="one")
                raise UrlElicitationRequiredError([params])
            return "done"

        @server.tool()
        async def question(ctx: Context[Any, Any]) -> str:
            answer = await ctx.elicit_url(REASON, PAGE, "one")
            return "done" if answer.action == "accept" else "declined"

        security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        async with serve_asgi(server.streamable_http_app(transport_security=security)) as port:
            self.url = f"http://127.0.0.1:{port}/mcp"
            yield


def text_of(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("way", [QUESTION, ERROR])
async def test_an_sdk_client_opens_the_page_of_an_sdk_server(tmp_path: Path, mode: Mode, way: str) -> None:
    server, person = SdkServer(), Person()
    person.server = server
    async with (
        server.serve(),
        running(tmp_path, catalog("demo", server.url, [ERROR, QUESTION], version=LEGACY)) as gateway,
        Client(f"http://127.0.0.1:{gateway.port}/mcp", mode=mode, elicitation_callback=person) as client,
    ):
        if mode == "legacy" and way == ERROR:
            with pytest.raises(MCPError) as raised:
                await client.call_tool(f"demo__{way}", {})
            required = UrlElicitationRequiredError.from_error(raised.value.error)
            assert [(each.url, each.elicitation_id) for each in required.elicitations] == [(PAGE, "one")]
            assert PAGE in str(raised.value), "clients that show the message alone show the link"
            server.opened = True
        result = await client.call_tool(f"demo__{way}", {})
    assert (text_of(result), result.is_error) == ("done", False)
    if not (mode == "legacy" and way == ERROR):
        assert [(params.url, params.message) for params in person.shown] == [(PAGE, REASON)]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("way", [QUESTION, ERROR])
async def test_an_sdk_client_without_the_capability_reads_the_link(tmp_path: Path, mode: Mode, way: str) -> None:
    server = SdkServer()
    async with (
        server.serve(),
        running(tmp_path, catalog("demo", server.url, [ERROR, QUESTION], version=LEGACY)) as gateway,
        Client(f"http://127.0.0.1:{gateway.port}/mcp", mode=mode) as client,
    ):
        result = await client.call_tool(f"demo__{way}", {})
    assert result.is_error
    assert PAGE in text_of(result)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("server", SERVERS)
async def test_an_sdk_client_opens_the_page_that_a_server_of_any_revision_asks_for(
    tmp_path: Path, mode: Mode, server: str
) -> None:
    person = Person()
    async with page_world(tmp_path) as world:
        person.server = world.servers[server]
        async with Client(
            f"http://127.0.0.1:{world.gateway.port}/mcp", mode=mode, elicitation_callback=person
        ) as client:
            result = await client.call_tool(f"{server}-shared__{QUESTION}", {})
    assert text_of(result) == "done"
    assert [params.url for params in person.shown] == [PAGE]
    assert bool(person.shown[0].elicitation_id) is (mode == "legacy")


@pytest.mark.parametrize(("mode", "server", "way"), [("legacy", "modern", QUESTION), ("auto", "legacy", ERROR)])
async def test_an_sdk_client_is_not_asked_twice_about_a_page_that_its_person_is_not_done_with(
    tmp_path: Path, mode: Mode, server: str, way: str
) -> None:
    """Clients answer at once that the user agreed, and repeat a call only a few times."""
    person = Person()
    async with page_world(tmp_path) as world:
        person.server = asking = world.servers[server]
        asking.late = 1
        async with Client(
            f"http://127.0.0.1:{world.gateway.port}/mcp", mode=mode, elicitation_callback=person
        ) as client:
            result = await client.call_tool(f"{server}-shared__{way}", {})
    assert text_of(result) == "done"
    assert len(asking.calls) == 3
    assert len(person.shown) == 1
