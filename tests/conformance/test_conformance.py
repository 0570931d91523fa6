"""The official conformance suite through the gateway: nothing that the server passes alone is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

import conformance


@pytest.mark.network
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("revision", conformance.REVISIONS)
def test_every_check_that_the_server_passes_alone_passes_through_the_gateway(tmp_path: Path, revision: str) -> None:
    try:
        (compared,) = conformance.compare(tmp_path, (revision,))
    except conformance.CannotRun as error:
        pytest.skip(str(error))
    assert compared.bare.passed > 80
    assert compared.wrong(conformance.baseline()) == []
