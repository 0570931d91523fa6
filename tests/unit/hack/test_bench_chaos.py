"""Seeds of `hack/bench chaos`, and their results."""

from __future__ import annotations

import pytest

from rig.harness import Report, Settings
from scale.bench_chaos import Row, measured


async def run(settings: Settings) -> Report:
    """Scripted run: seed 7 has differences and seed 8 does not end. Without lists, every seed has differences."""
    report = Report("chaos")

    async def measure(seed: int, operations: int, part: str) -> Row:
        if seed == 8:
            raise AssertionError("did not stop")
        differs = seed == 7 or part == "without-lists"
        return {"seed": seed, "part": part, "operations": operations, "differences": int(differs), "seconds": 1.0}

    await measured(settings, report, measure)
    return report


async def test_a_difference_and_a_seed_without_an_end_fail_with_the_command_that_repeats_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = await run(Settings(rounds=1, seeds=3, first_seed=6, only=("lists",)))
    assert report.failures == [
        "seed 7, lists: 1 differences; again: hack/bench chaos --only lists --seeds 1 --from 7",
        "seed 8, lists: AssertionError: did not stop; again: hack/bench chaos --only lists --seeds 1 --from 8",
    ]
    assert capsys.readouterr().err.splitlines()[0] == "1/3 seed 6, lists: 0 differences, 1 s"


async def test_differences_without_lists_are_what_is_looked_for() -> None:
    report = await run(Settings(rounds=1, seeds=6, only=("without-lists",)))
    assert (len(report.rows), report.failures) == (1, [])
    report = await run(Settings(rounds=1))
    assert [row["seed"] for row in report.rows if row["part"] == "lists"] == [*range(8), *range(9, 100)]
