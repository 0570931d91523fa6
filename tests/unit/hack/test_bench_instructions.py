"""Reading of callgrind's files by `hack/bench instructions`."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.bench_instructions import PARTS, total_of
from gateway.workloads import CLIENTS, slug
from rig.harness import Unmeasurable


def test_the_sum_is_that_at_the_end_of_a_file_that_was_written_while_nothing_was_counted(tmp_path: Path) -> None:
    counts = tmp_path / "counts.2"
    counts.write_text("part: 2\nevents: Ir\nsummary: 0\n\nfn=(1) f\n12 192\n\ntotals: 259343204\n")
    assert total_of(counts) == 259_343_204


def test_a_file_without_a_sum_is_not_measured(tmp_path: Path) -> None:
    counts = tmp_path / "counts"
    counts.write_text("part: 1\nevents: Ir\n")
    with pytest.raises(Unmeasurable, match="no sum"):
        total_of(counts)


def test_each_kind_of_client_is_a_part() -> None:
    assert {slug(workload.name) for workload in CLIENTS} <= {*PARTS}
