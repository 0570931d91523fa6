"""Real SDKs read a corpus of malformed results through the gateway: each executed call returns a result.

At night, each SDK reads the whole corpus. At a merge, each SDK reads a third, so that the SDKs of a revision together
read every result. The schemas of both revisions check the gateway's results at each merge, too.
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
    whole = folder / "corpus.json"
    part = folder / "part.json"
    results = results_for(sdk)
    whole.write_text(json.dumps(results))
    part.write_text(json.dumps(DIRECT))
    async with raw_server(answer_json) as server:
        reached = catalog("odd", server.url, ["give"], version=LEGACY)
        async with running(folder, reached) as gateway:
            refused = await refusals(sdk, f"http://127.0.0.1:{gateway.port}/mcp", "odd__give", whole)
        assert [(results[index], why) for index, why in refused] == []
        if "2026" not in sdk:  # the server supports 2025-11-25
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
