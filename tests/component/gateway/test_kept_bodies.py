"""Large requests leave nothing behind on connections that stay open."""

from __future__ import annotations

import json
from pathlib import Path

from msgspec import Raw

from fairlead_api.documents.catalog import Definition
from fairlead_gateway.endpoint.notification_streams import MAX_ID, MAX_RESOURCE_BYTES
from gatewayworld import Wire, calling, catalog, modern, running
from toolservers import modern_server, tool

LARGE = "x" * 1_000_000


async def test_an_idle_connection_keeps_nothing_of_its_last_request(tmp_path: Path) -> None:
    async with (
        modern_server([tool("add")]) as server,
        running(tmp_path, catalog("demo", server.url, ["add"])) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        assert (await wire.ask(calling("demo__add", {"text": LARGE}))).status == 200
        [connection] = gateway._listener.connections
        assert connection.current is None
        assert connection._latest_exchange is None


async def test_an_open_stream_keeps_what_it_watches_and_not_the_rest_of_its_request(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway, await Wire.connect(gateway) as wire:
        wanted = {"notifications": {"toolsListChanged": True}, "padding": LARGE}
        wire.send(modern("subscriptions/listen", wanted))
        await wire.reader.readuntil(b"acknowledged")
        [stream] = gateway.endpoint.streams._open_streams
        assert len(stream.exchange.body) == 0


async def test_a_stream_whose_request_id_has_the_longest_length_is_opened(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway, await Wire.connect(gateway) as wire:
        wire.send(modern("subscriptions/listen", {"notifications": {}}, number="x" * MAX_ID))
        await wire.reader.readuntil(b"acknowledged")


async def test_a_stream_whose_request_id_is_too_long_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway, await Wire.connect(gateway) as wire:
        answer = await wire.ask(modern("subscriptions/listen", {"notifications": {}}, number="x" * (MAX_ID + 1)))
        assert (answer.status, "id" in answer.message["error"]["message"]) == (400, True)


async def test_the_resources_of_all_streams_together_are_limited(tmp_path: Path) -> None:
    """Other streams have used up nearly the whole limit."""
    uris = ["file:///a", "file:///" + "b" * 100]
    items = tuple(
        Definition(name=uri, definition=Raw(json.dumps({"uri": uri, "name": uri}).encode()), hash="") for uri in uris
    )
    capabilities = Raw(b'{"resources":{"subscribe":true}}')
    document = catalog("demo", "http://127.0.0.1:9/mcp", ["add"], resources=items, capabilities=capabilities)
    async with running(tmp_path, document) as gateway:
        streams = gateway.endpoint.streams
        streams._subscription_bytes.total = MAX_RESOURCE_BYTES - 20
        async with await Wire.connect(gateway) as wire:
            wire.send(modern("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}}))
            await wire.reader.readuntil(b"acknowledged")
            [stream] = streams._open_streams
            assert stream.resources == ["file:///a"]
