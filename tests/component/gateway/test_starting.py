"""The first moments of a gateway: no client gets an empty list because the tools have not been read yet."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from fairlead_app.call_path import ServerAccess
from fairlead_app.compose import CatalogFeed, compose
from fairlead_app.settings import Settings
from fairlead_gateway.catalog.directory import DirectoryCredentials, DirectorySource
from fairlead_gateway.catalog.source import Inbox
from gatewayworld import catalog, publish


class Held:
    """A source that reports nothing until the test releases it."""

    def __init__(self, directory: Path) -> None:
        self._source = DirectorySource(directory)
        self.requested = asyncio.Event()
        self.go = asyncio.Event()

    async def run(self, inbox: Inbox) -> None:
        self.requested.set()
        await self.go.wait()
        await self._source.run(inbox)


async def tool_names(port: int) -> list[str]:
    """Names of the tools, over REST. Raises aiohttp.ClientConnectorError if the gateway does not listen yet."""
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/v1/tools") as answer:
        return [tool["name"] for tool in (await answer.json())["tools"]]


async def test_connections_are_refused_until_there_is_a_catalog(tmp_path: Path) -> None:
    publish(tmp_path, catalog("demo", "http://127.0.0.1:9/mcp", ["add"]))
    source = Held(tmp_path)
    settings = Settings.of(port=0, metrics_port=0, grace=0.5)
    gateway = compose(
        settings, CatalogFeed(source=source), ServerAccess(credentials=DirectoryCredentials(tmp_path / "credentials"))
    )
    starting = asyncio.create_task(gateway.start())
    try:
        await asyncio.wait_for(source.requested.wait(), 10)
        with pytest.raises(aiohttp.ClientConnectorError):
            await tool_names(gateway.port)
        url = f"http://127.0.0.1:{gateway.metrics_port}/readyz"
        async with aiohttp.ClientSession() as session, session.get(url) as ready:
            assert (ready.status, await ready.text()) == (503, "the gateway has not read the catalog yet\n")
        source.go.set()
        await starting
        assert await tool_names(gateway.port) == ["demo__add"]
    finally:
        await asyncio.wait([starting], timeout=10)
        await gateway.stop(0.5)
