"""Requests of operations in real documents. `openapi-core` checks each request against the document."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from documentoracle import DocumentOracle
from fairlead_openapi.compiling.reading import DocumentRefused
from openapi.documents import documents
from rig.harness import Unmeasurable

pytestmark = [pytest.mark.network, pytest.mark.timeout(1800)]
FEW = ("Asana", "Blockfrost (YAML)", "Box", "Directus", "GitLab", "ReadMe (3.1)", "Slack")
REQUESTS = 2
"""Number of requests of each operation."""


def files() -> dict[str, list[Path]]:
    try:
        return documents()
    except Unmeasurable as error:
        pytest.skip(str(error))


def judge(names: tuple[str, ...], every: int) -> tuple[Counter[str], list[str]]:
    """Check one in `every` operations. Returns the numbers of operations and requests, and the faults."""
    counts: Counter[str] = Counter()
    faults: list[str] = []
    for file in [file for name, of_name in files().items() if name in names for file in of_name]:
        try:
            oracle = DocumentOracle(file)
        except DocumentRefused:
            counts["documents refused"] += 1
            continue
        counts["documents"] += 1
        for tool in oracle.compiled.tools[::every]:
            judgements = list(oracle.judge(tool, REQUESTS))
            read = [each for each in judgements if not each.limit]
            counts.update({"operations": 1, "requests": len(judgements), "operations judged": bool(read)})
            counts.update(each.limit for each in judgements if each.limit)
            faults += [f"{file.name} {each.tool} {each.arguments}: {each.fault}" for each in read if each.fault]
    sys.stdout.writelines(f"{count:,} {what}\n" for what, count in counts.most_common())
    return counts, faults


@pytest.mark.heavy
def test_openapi_core_reads_the_arguments_in_requests_of_some_operations_of_real_documents() -> None:
    counts, faults = judge(FEW, every=6)
    assert faults == []
    assert counts["operations judged"] >= 200


@pytest.mark.nightly
def test_openapi_core_reads_the_arguments_in_requests_of_all_operations_of_real_documents() -> None:
    counts, faults = judge(tuple(files()), every=1)
    assert faults == []
    assert counts["operations judged"] >= 6000
    assert counts["operations judged"] >= 0.98 * counts["operations"]
