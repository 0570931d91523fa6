"""The official SDKs list the tools of a valid server next to a server with all kinds of malformed definitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewayworld import running
from oddservers import good_server, odd_server
from sdkreaders import FETCHED, READERS, names

EXPECTED = {"tools": "good__good", "prompts": "good__good", "resources": "good", "templates": "good"}


async def listed_beside_odd_entries(folder: Path, sdk: str) -> None:
    async with running(folder, good_server(), odd_server()[0]) as gateway:
        lists = await names(sdk, f"http://127.0.0.1:{gateway.port}/mcp")
    for name, expected in EXPECTED.items():
        assert isinstance(lists[name], list), f"{name}: {lists[name]}"
        assert expected in lists[name]
        assert len(lists[name]) > 10, "what can be mended is there too"


@pytest.mark.parametrize("sdk", sorted({*READERS} - {*FETCHED}))
async def test_an_sdk_lists_the_entries_of_a_good_server_beside_odd_ones(tmp_path: Path, sdk: str) -> None:
    await listed_beside_odd_entries(tmp_path, sdk)


@pytest.mark.network
@pytest.mark.parametrize("sdk", FETCHED)
async def test_a_fetched_sdk_lists_the_entries_of_a_good_server_beside_odd_ones(tmp_path: Path, sdk: str) -> None:
    await listed_beside_odd_entries(tmp_path, sdk)
