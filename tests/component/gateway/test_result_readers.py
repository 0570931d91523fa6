"""Real SDKs read a corpus of odd results through the gateway: each call that was executed returns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from gatewayworld import catalog, running
from rawserver import raw_server
from resultcorpus import CORPUS
from sdkreaders import FETCHED, READERS, refusals
from shapeserver import LEGACY, answer_json

DIRECT: Final = CORPUS[::20]
"""Part of the corpus that is read without the gateway, to see that the SDK would refuse something."""
CALLING: Final = [sdk for sdk, reader in READERS.items() if reader.calls]


async def assert_all_are_read(folder: Path, sdk: str) -> None:
    whole = folder / "corpus.json"
    part = folder / "part.json"
    whole.write_text(json.dumps(CORPUS))
    part.write_text(json.dumps(DIRECT))
    async with raw_server(answer_json) as server:
        reached = catalog("odd", server.url, ["give"], version=LEGACY)
        async with running(folder, reached) as gateway:
            refused = await refusals(sdk, f"http://127.0.0.1:{gateway.port}/mcp", "odd__give", whole)
        assert [(CORPUS[index], why) for index, why in refused] == []
        if "2026" not in sdk:  # the server is of 2025-11-25
            assert len(await refusals(sdk, server.url, "give", part)) > 5, "the SDK takes anything"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("sdk", [sdk for sdk in CALLING if sdk not in FETCHED])
async def test_an_sdk_reads_every_result(tmp_path: Path, sdk: str) -> None:
    await assert_all_are_read(tmp_path, sdk)


@pytest.mark.network
@pytest.mark.timeout(600)
@pytest.mark.parametrize("sdk", [sdk for sdk in CALLING if sdk in FETCHED])
async def test_a_fetched_sdk_reads_every_result(tmp_path: Path, sdk: str) -> None:
    await assert_all_are_read(tmp_path, sdk)
