"""After random operations and outages, by seed, the documents equal those that a new operator writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane import ControlPlane, find_assets
from document_pictures import differences
from random_operations import chaos, compare

pytestmark = [pytest.mark.timeout(900), pytest.mark.chaos, pytest.mark.heavy]

SEEDS = (0, 4)
"""Seeds of this run; the first one kills the API server's process. `hack/bench chaos` runs other seeds in nightly
runs."""
OPERATIONS = 200
LOST = {4: 0.5}
"""Share of lost events, by seed."""


async def test_after_outages_expiries_and_changes_of_the_leader_documents_are_those_of_a_fresh_operator(
    tmp_path: Path,
) -> None:
    # A single test with one event loop, because an API server ends with the thread that restarted it.
    (tmp_path / "plane").mkdir()
    wrong: dict[int, list[str]] = {}
    with ControlPlane(tmp_path / "plane", find_assets()) as plane:
        plane.install_crds()
        for seed in SEEDS:
            folder = tmp_path / str(seed)
            folder.mkdir()
            async with chaos(plane, folder, seed, lost=LOST.get(seed, 0.0)) as run:
                actual, wanted = await compare(run, OPERATIONS, kills=0 if seed else 1)
                assert run.done["leaders"] > 1
                wrong[seed] = differences(actual, wanted)
    assert {seed: lines for seed, lines in wrong.items() if lines} == {}
