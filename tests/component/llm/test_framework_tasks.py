"""SDKs and frameworks with default settings get the same final message through the gateway as directly."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework_tasks import EQUAL, FAILS_ALONE, FRAMEWORKS, WAYS, differences
from frameworkclients import framework_client

pytestmark = [pytest.mark.nightly, pytest.mark.network, pytest.mark.timeout(1200)]


@pytest.mark.parametrize("framework", FRAMEWORKS)
async def test_a_task_of_three_steps_ends_with_the_message_of_a_direct_run(tmp_path: Path, framework: str) -> None:
    async with framework_client(framework, tmp_path) as client:
        cells = await differences(client, framework, tmp_path)
    different = {cell: outcome for cell, outcome in cells.items() if outcome != EQUAL}
    alone = {api for name, api in FAILS_ALONE if name == framework}
    assert different.keys() == {f"{api}, {way}, direct" for api in alone for way in WAYS}, different
