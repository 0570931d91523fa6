"""The live half of `hack/bench tiers`: real servers, a gateway and the operator's parts on the begin of a trace."""

from __future__ import annotations

from tier_live import Run
from tier_replay import DECLARED, P95
from traces import TRACES

CALLS = 60


async def test_a_liar_is_hidden_once_its_calls_are_measured() -> None:
    measured = await Run(TRACES["liar, one"], P95, CALLS).measure()
    declared = await Run(TRACES["liar, one"], DECLARED, CALLS).measure()
    assert measured.calls == declared.calls == CALLS
    assert declared.moves == 0
    assert measured.demote is not None
    assert measured.late < declared.late
