"""`hack/bench starts`: one start of `fairlead up` is measured, and has its goals."""

from __future__ import annotations

import pytest

from rig.harness import Settings, Unmeasurable
from up.bench_starts import run


def test_a_start_of_up_is_measured_until_its_first_answer() -> None:
    report = run(Settings(rounds=1, quick=True, only=("up",)))
    figures = [row["figure"] for row in report.rows]
    assert figures == ["up, first tool listed", "up, first call answered", "up, processor time until then"]
    assert [goal.name for goal in report.goals] == figures[:2]
    assert all(goal.value is not None and goal.value > 0 for goal in report.goals)


def test_a_part_that_the_benchmark_does_not_have_is_refused() -> None:
    with pytest.raises(Unmeasurable, match="there is no such part"):
        run(Settings(rounds=1, only=("nothing",)))
