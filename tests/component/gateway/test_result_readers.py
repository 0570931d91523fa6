"""Real SDKs call a tool whose server answers with a corpus of malformed results: the gateway repairs each result so
that no SDK refuses it.

At night, each SDK reads the whole corpus. At a merge, each SDK reads a third, so that the SDKs of one MCP revision
together read every result. The schemas of both MCP revisions check the gateway's results at each merge, too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from examples import NIGHTLY
from gatewayworld import catalog, running
from rawserver import raw_server
from resultcorpus import CORPUS
from sdkreaders import FETCHED, READERS, refusals
from shapeserver import LEGACY, answer_json

DIRECT: Final = CORPUS[::20]
"""Part of the corpus that is also read without the gateway, to show that the SDK refuses some of it."""
CALLING: Final = [sdk for sdk, reader in READERS.items() if reader.calls]
PARTS: Final = 3
"""Number of parts of the corpus outside of nightly runs. At least three SDKs support each revision."""


def results_for(sdk: str) -> Sequence[Any]:
    """Results of the corpus that an SDK reads in this run."""
    if os.environ.get(NIGHTLY):
        return CORPUS
    of_revision = [each for each in CALLING if ("2026" in each) == ("2026" in sdk)]
    return CORPUS[of_revision.index(sdk) % PARTS :: PARTS]


async def assert_all_are_read(folder: Path, sdk: str) -> None:
    through_gateway_file = folder / "through_gateway.json"
    direct_file = folder / "direct.json"
    results = results_for(sdk)
    through_gateway_file.write_text(json.dumps(results))
    direct_file.write_text(json.dumps(DIRECT))
    async with raw_server(answer_json) as server:
        server_catalog = catalog("odd", server.url, ["give"], version=LEGACY)
        async with running(folder, server_catalog) as gateway:
            url = f"http://127.0.0.1:{gateway.port}/mcp"
            refused = await refusals(sdk, url, "odd__give", through_gateway_file)
        assert [(results[index], why) for index, why in refused] == []
        if "2026" not in sdk:  # the server supports only 2025-11-25, so SDKs of 2026-07-28 cannot call it directly
            assert len(await refusals(sdk, server.url, "give", direct_file)) > 5, "the SDK takes anything"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("sdk", [sdk for sdk in CALLING if sdk not in FETCHED])
async def test_an_sdk_reads_every_result(tmp_path: Path, sdk: str) -> None:
    await assert_all_are_read(tmp_path, sdk)


@pytest.mark.network
@pytest.mark.timeout(600)
@pytest.mark.parametrize("sdk", [sdk for sdk in CALLING if sdk in FETCHED])
async def test_a_fetched_sdk_reads_every_result(tmp_path: Path, sdk: str) -> None:
    await assert_all_are_read(tmp_path, sdk)
