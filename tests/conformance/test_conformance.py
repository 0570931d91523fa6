"""The official conformance suite through the gateway: every check that the server passes directly also passes there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import conformance
from conformance_clients import SCENARIOS, Scenario, run
from examples import NIGHTLY


@contextlib.contextmanager
def skip_if_missing() -> Iterator[None]:
    """Skip the test if the suite cannot be installed. In CI with npx, this is a failure instead."""
    try:
        yield
    except conformance.CannotRun as error:
        if os.environ.get("CI") and conformance.has_npx():
            raise
        pytest.skip(str(error))


@pytest.mark.network
@pytest.mark.timeout(1800)
def test_every_check_that_the_server_passes_alone_passes_through_the_gateway(tmp_path: Path) -> None:
    with skip_if_missing():
        # of tasks in a process for each client, test_per_client_tasks.py tests every way by day
        compared = conformance.compare(tmp_path, per_client=NIGHTLY in os.environ)
    assert all(comparison.bare.passed > (40 if "tasks" in comparison.revision else 80) for comparison in compared)
    assert conformance.judge(compared, conformance.baseline()) == []


@pytest.mark.network
@pytest.mark.timeout(300)
@pytest.mark.diagonal(1)  # a scenario takes two processes of Node, one of them with a gateway
@pytest.mark.parametrize(
    ("subject", "revision", "name"), [(scenario.subject, scenario.revision, scenario.name) for scenario in SCENARIOS]
)
def test_our_clients_pass_what_the_suite_asks_of_clients(
    tmp_path: Path, subject: str, revision: str, name: str
) -> None:
    with skip_if_missing():
        result = run(Scenario(name, revision, subject), tmp_path)
    assert result.missed == {}, result.output
    assert result.passed > 0
