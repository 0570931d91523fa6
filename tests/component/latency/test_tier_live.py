"""The live part of `hack/bench tiers`: `fairlead up` with real servers, at the beginning of a trace, in real time."""

from __future__ import annotations

from tiers.bench_tiers import figures
from tiers.live import Run, columns
from tiers.replay import DECLARED, P95
from tiers.traces import TRACES

CALLS = 40


async def test_a_liar_is_hidden_once_its_calls_are_measured_and_not_by_what_it_declares() -> None:
    measured = await Run(TRACES["liar, one"], P95, CALLS).measure()
    declared = await Run(TRACES["liar, one"], DECLARED, CALLS).measure()
    assert measured.calls == declared.calls == CALLS
    assert measured.unanswered == declared.unanswered == 0
    assert declared.moves == 0
    assert measured.moves == measured.tier_moves["fast"] == len(measured.demote) == 1
    assert "standard" not in measured.tier_moves, "800 ms fit there"
    assert measured.late_by_trace < declared.late_by_trace
    row = {**figures([measured]), **columns(measured)}
    assert row["moves"] == "1.00"
    assert row["moves per tier"] == "fast 1"
