"""Servers whose handshake shows that their tools come from this gateway itself, also through intermediaries."""

from __future__ import annotations

import json
import sys

import pytest

from fairlead_api.documents.catalog import ChildEndpoint, Endpoint, HttpEndpoint
from fairlead_api.meta import ServerKey
from fairlead_mcp.errors import McpError
from fairlead_mcp.host import ChildHost
from fairlead_mcp.via import pseudonym
from fairlead_operator.local.platform import LocalConnector
from rawserver import raw_server
from scriptedserver import ERAS, SCRIPTED_STDIO, handshake, over_http, responder

KEY = ServerKey("default", "demo")


@pytest.mark.parametrize("transport", ["stdio", "url"])
@pytest.mark.parametrize("era", ERAS)
async def test_a_process_that_leads_back_is_refused_and_others_are_not(era: str, transport: str) -> None:
    own = pseudonym()
    other = pseudonym()
    for names, refused in (([other], False), ([other, own], True)):
        results = handshake(era, _meta={"fairlead.dev/gateways": names})
        async with raw_server(over_http(responder(results))) as server:
            child = ChildEndpoint(command=sys.executable, args=(SCRIPTED_STDIO, json.dumps(results)))
            endpoint: Endpoint = child if transport == "stdio" else HttpEndpoint(url=server.url)
            host = ChildHost()
            connector = LocalConnector(host, installation=own)
            if refused:
                with pytest.raises(McpError, match="leads back to this gateway") as caught:
                    await gateways_behind(connector, endpoint)
                assert caught.value.reason == "LoopDetected"
            else:
                assert await gateways_behind(connector, endpoint) == (other,)
            await host.aclose()


async def gateways_behind(connector: LocalConnector, endpoint: Endpoint) -> tuple[str, ...]:
    async with connector.session(KEY, endpoint, None) as session:
        return session.negotiated.gateways


@pytest.mark.parametrize("named", [None, {}, "x", [1], ["someone"], ["fairlead-xyz"], [["fairlead-0123456789abcdef"]]])
async def test_text_that_is_not_a_list_of_gateways_names_none(named: object) -> None:
    results = handshake(ERAS[0], _meta={"fairlead.dev/gateways": named})
    async with raw_server(over_http(responder(results))) as server:
        connector = LocalConnector(ChildHost(), installation=pseudonym())
        assert await gateways_behind(connector, HttpEndpoint(url=server.url)) == ()
