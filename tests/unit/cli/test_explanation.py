"""Lines that `fairlead explain` prints about a tool, by the gateway's answer."""

from __future__ import annotations

from typing import Any

from fairlead_cli.speed.tiers import explanation

HEALTH = {"score": 100, "state": "Healthy", "reason": None}


def explain(**measured: Any) -> list[str]:
    latency = {"estimated_duration_ms": None, "max_duration_ms": None, "measured_at": "2026-01-31T08:59:58Z"}
    defaults = {"quantiles": None, "bimodal": False, "health": HEALTH, "roundTripMs": None}
    return explanation({"name": "a__b", "server": "default/a", "latency": latency, "measured": defaults | measured})


def test_unknown_figures_of_a_tool_are_said_in_one_word_each() -> None:
    assert explain()[1:4] == ["  declared  nothing", "  measured  nothing yet", "  network   not measured"]


def test_figures_are_named_as_those_that_tiers_are_decided_by() -> None:
    figures = {"p50Ms": 6.3, "p90Ms": 7.0, "p95Ms": 812.0, "p99Ms": 900.0, "samples": 5}
    measured, network = explain(quantiles=figures, roundTripMs=2.4)[2:4]
    assert measured.startswith("  measured  p50 6.3 ms, p90 7.0 ms, p95 812 ms, p99 900 ms over 5 calls, the last at")
    assert measured.endswith("; tiers use these measurements")
    assert network == "  network   2.4 ms for a request that calls no tool"
    assert " over 1 call, the last at" in explain(quantiles=figures | {"samples": 1})[2]
