"""The definition of growth in `hack/bench soak`."""

from __future__ import annotations

import pytest

from scale.bench_soak import Sample, growth, report


@pytest.mark.parametrize(
    ("values", "grown"),
    [([100.0] * 40, 0.0), ([0.0] * 10 + [50.0] * 30, 0.0), ([float(x) for x in range(40)], 29.0), ([1.0], 0.0)],
    ids=["flat", "only at first", "steadily", "one value"],
)
def test_growth_is_the_rise_of_a_line_after_the_first_quarter(values: list[float], grown: float) -> None:
    assert growth(values) == pytest.approx(grown)


def test_a_leak_of_tasks_passes_its_bound_and_noise_does_not() -> None:
    flat = [Sample(str(n), 80 + n % 3 / 10, 20 + n % 2, 12, 0) for n in range(40)]
    leaking = [Sample(s.label, s.memory, s.files, s.tasks + n // 4, 0) for n, s in enumerate(flat)]
    assert all(goal.met for goal in report(flat).goals)
    assert {goal.name.split()[2] for goal in report(leaking).goals if not goal.met} == {"tasks"}
