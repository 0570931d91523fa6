"""Counts of tool calls, computed from the histograms that calls fill."""

from __future__ import annotations

from fairlead_gateway.telemetry import TOOL_ERROR, MetricsRegistry
from fairlead_rest.call_counts import NEVER_CALLED, CallCount, CallCounts


def test_failed_calls_of_every_kind_are_calls_and_errors() -> None:
    registry = MetricsRegistry()
    recorder = registry.recorder("tools/call", "add", "default/demo")
    for error in ("", "", TOOL_ERROR, "-32602"):
        recorder.record(1000, error)
    registry.recorder("tools/call", "add", "default/other").record(1000)
    registry.recorder("tools/list", "add", "default/demo").record(1000)
    counts = CallCounts(registry).read()
    assert counts.of("add", "default/demo") == CallCount(4, 2)
    assert counts.of("add", "default/other") == CallCount(1, 0)
    assert counts.of("slow", "default/demo") == NEVER_CALLED


def test_a_tool_that_shares_its_histogram_for_want_of_room_has_no_count() -> None:
    registry = MetricsRegistry(max_label_sets=1)
    for tool in ("add", "slow"):
        registry.recorder("tools/call", tool, "default/demo").record(1000)
    counts = CallCounts(registry).read()
    assert counts.of("add", "default/demo") == CallCount(1, 0)
    assert counts.of("slow", "default/demo") is None


def test_every_process_has_an_id_of_its_own() -> None:
    registry = MetricsRegistry()
    assert CallCounts(registry).origin != CallCounts(registry).origin
