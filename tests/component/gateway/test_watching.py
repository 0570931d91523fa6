"""Resources that clients watch, in each combination of eras, and the end of the watches."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from fairlead_api.documents.catalog import Catalog, Definition
from fairlead_api.documents.rules import Policy, Rule, Rules
from fairlead_app.authentication import Trust
from gatewayworld import (
    LEGACY,
    META,
    MODERN,
    Ask,
    Wire,
    ask,
    catalog,
    legacy,
    modern,
    publish,
    running,
    wait_for_snapshots,
)
from policyworld import Vouching, anybody, by
from rawserver import Reply, Request, raw_server
from waiting import eventually

DENY = Rule(action="Deny", tools=("*",))
ONE = "test://one"
TWO = "test://two"
APP = "ui://app"
URIS = [(ONE, ONE), (APP, "ui://demo/app")]
"""Pairs of a URI at the server and the same URI at the merged endpoint."""
CAPABILITIES = {"resources": {"subscribe": True, "listChanged": True}, "tools": {}}


def update_notification(uri: str, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri, **more}}


class Watched:
    """A server of one era with resources that tests change."""

    def __init__(self, era: str) -> None:
        self.era = era
        self.streams: list[Reply] = []
        self.wanted: list[Any] = []
        self.unwanted: list[Any] = []

    async def handle(self, request: Request, reply: Reply) -> None:
        if request.method == "initialize" and self.era == MODERN:
            return reply.error(request, 404, -32601, "Method not found")
        if request.method == "initialize":
            hello = {
                "protocolVersion": LEGACY,
                "capabilities": CAPABILITIES,
                "serverInfo": {"name": "s", "version": "1"},
            }
            return reply.result(request, hello, mcp_session_id=f"s{len(self.streams)}")
        if request.verb == "GET" or request.method == "subscriptions/listen":
            reply.open_stream()
            self.streams.append(reply)
            if request.method == "subscriptions/listen":
                self.wanted += request.params["notifications"]["resourceSubscriptions"]
            await reply.flush()
            await asyncio.Event().wait()
        if request.method == "resources/subscribe":
            self.wanted.append(request.params["uri"])
        if request.method == "resources/unsubscribe":
            self.unwanted.append(request.params["uri"])
        if "id" not in request.message:
            return reply.send(202)
        return reply.result(request, {})

    async def change(self, uri: str) -> None:
        for stream in self.streams:
            stream.event(update_notification(uri, _meta={META + "subscriptionId": "theirs"}))
            await stream.flush()


def document(url: str, era: str) -> Catalog:
    items = tuple(
        Definition(name=uri, definition=Raw(json.dumps({"uri": uri, "name": uri}).encode()), hash="")
        for uri in (ONE, TWO, APP)
    )
    return catalog(
        "demo", url, ["x"], version=era, resources=items, capabilities=Raw(json.dumps(CAPABILITIES).encode())
    )


def listen_request(uris: list[str]) -> Ask:
    return modern("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}}, number="mine")


@pytest.mark.parametrize("server_era", [MODERN, LEGACY])
@pytest.mark.parametrize(("own", "shown"), URIS)
async def test_a_modern_client_hears_of_the_resources_that_its_stream_names(
    tmp_path: Path, server_era: str, own: str, shown: str
) -> None:
    watched = Watched(server_era)
    async with (
        raw_server(watched.handle) as server,
        running(tmp_path, document(server.url, server_era)) as gateway,
    ):
        offered = (await ask(gateway, modern("server/discover"))).message["result"]["capabilities"]["resources"]
        assert offered["subscribe"] is True
        async with await Wire.connect(gateway) as wire:
            wire.send(listen_request([shown, "nobody://knows"]))
            acknowledged = await wire.reader.readuntil(b"}}\n\n")
            assert b'"resourceSubscriptions":["%b"]' % shown.encode() in acknowledged
            await eventually(lambda: watched.wanted == [own] and watched.streams)
            await watched.change(own)
            heard = await wire.reader.readuntil(b"}}\n\n")
            message = json.loads(heard.partition(b"data: ")[2])
            assert message == update_notification(shown, _meta={META + "subscriptionId": "mine"})
        await eventually(lambda: len(gateway.endpoint.context.subscriptions) == 0)
        if server_era == MODERN:
            await eventually(server.broken_off.is_set)
        else:
            await eventually(lambda: watched.unwanted == [own])


@pytest.mark.parametrize("server_era", [MODERN, LEGACY])
@pytest.mark.parametrize(("own", "shown"), URIS)
async def test_a_legacy_client_hears_of_the_resources_that_it_subscribed_to(
    tmp_path: Path, server_era: str, own: str, shown: str
) -> None:
    watched = Watched(server_era)
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    async with (
        raw_server(watched.handle) as server,
        running(tmp_path, document(server.url, server_era)) as gateway,
    ):
        session = (await ask(gateway, legacy("initialize", hello))).headers["mcp-session-id"]
        async with await Wire.connect(gateway) as wire:
            wire.send(Ask(headers={"accept": "text/event-stream", "mcp-session-id": session}, body=b"", verb="GET"))
            await wire.reader.readuntil(b"keep-alive\n\n")
            done = await ask(gateway, legacy("resources/subscribe", {"uri": shown}, session=session))
            assert done.message["result"] == {}
            await eventually(lambda: watched.wanted == [own] and watched.streams)
            await watched.change(own)
            heard = json.loads((await wire.reader.readuntil(b"}}\n\n")).partition(b"data: ")[2])
            assert (heard["method"], heard["params"]["uri"]) == ("notifications/resources/updated", shown)
            await ask(gateway, legacy("resources/unsubscribe", {"uri": shown}, session=session))
            assert len(gateway.endpoint.context.subscriptions) == 0
            if server_era == MODERN:
                await eventually(server.broken_off.is_set)
            else:
                assert watched.unwanted == [own]


@pytest.mark.parametrize("server_era", [MODERN, LEGACY])
async def test_resource_updates_end_when_the_server_is_denied_to_their_client(tmp_path: Path, server_era: str) -> None:
    """The check is `Streams._sees`; without it, the client would get the last update."""
    watched = Watched(server_era)
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    npc = anybody("npc")
    none = Policy(namespace="default", name="none", every=True, rules=(DENY,))
    async with (
        raw_server(watched.handle) as server,
        running(tmp_path, document(server.url, server_era), trust=Trust((Vouching(npc),))) as gateway,
    ):
        session = (await ask(gateway, by("npc", legacy("initialize", hello)))).headers["mcp-session-id"]
        async with await Wire.connect(gateway) as wire:
            stream = Ask(headers={"accept": "text/event-stream", "mcp-session-id": session}, body=b"", verb="GET")
            wire.send(by("npc", stream))
            await wire.reader.readuntil(b"keep-alive\n\n")
            await ask(gateway, by("npc", legacy("resources/subscribe", {"uri": ONE}, session=session)))
            await eventually(lambda: watched.wanted == [ONE] and watched.streams)
            swaps = gateway.snapshots.swaps
            publish(tmp_path / "documents", Rules(policies=(none,)))
            await wait_for_snapshots(gateway, swaps + 1)
            told = gateway.endpoint.streams.notify
            offered: list[bool] = []

            def is_noted(ident: bytes, params: Raw) -> bool:
                offered.append(told(ident, params))
                return offered[-1]

            gateway.endpoint.server_requests.send_update = is_noted
            await watched.change(ONE)
            await eventually(lambda: offered)
            assert offered == [False]


async def test_a_resource_watch_that_ends_at_the_server_is_opened_again(tmp_path: Path) -> None:
    watched = Watched(MODERN)
    async with (
        raw_server(watched.handle) as server,
        running(tmp_path, document(server.url, MODERN)) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        wire.send(listen_request([ONE]))
        await eventually(lambda: watched.streams)
        server.cut()
        await eventually(lambda: len(watched.streams) == 2)
        await watched.change(ONE)
        await wire.reader.readuntil(b"notifications/resources/updated")


async def test_a_stream_that_names_too_much_is_given_what_there_is_room_for(tmp_path: Path) -> None:
    watched = Watched(MODERN)
    async with (
        raw_server(watched.handle) as server,
        running(tmp_path, document(server.url, MODERN)) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        wire.send(listen_request([f"no://{n}" for n in range(64)] + [ONE]))
        acknowledged = await wire.reader.readuntil(b"}}\n\n")
        assert b"resourceSubscriptions" not in acknowledged
        assert len(gateway.endpoint.context.subscriptions) == 0
