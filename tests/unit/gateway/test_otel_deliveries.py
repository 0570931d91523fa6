"""Lost deliveries to a collector are counted, and logged once."""

from __future__ import annotations

import logging

import pytest

from fairlead_otel.deliveries import EXPORT_FAILED, QUEUE_FULL, Deliveries, quiet_exporters


def test_deliveries_without_room_are_dropped_and_counted_until_a_batch_was_sent() -> None:
    spans = Deliveries("traces", "http://collector", capacity=2)
    assert [spans.admit() for _ in range(3)] == [True, True, False]
    assert spans.lost == {QUEUE_FULL: 1, EXPORT_FAILED: 0}
    spans.end(1, well=True)
    spans.end(1, well=False)
    assert (spans.sent, spans.lost) == (1, {QUEUE_FULL: 1, EXPORT_FAILED: 1})
    assert [spans.admit() for _ in range(3)] == [True, True, False]


def test_log_records_wait_for_as_many_bytes_as_there_may_be() -> None:
    logs = Deliveries("audit", "http://collector", capacity=100, capacity_bytes=10)
    assert [logs.admit(size) for size in (6, 5, 4, 1)] == [True, False, True, False]
    logs.end(1, 6, well=False)
    assert [logs.admit(size) for size in (7, 6)] == [False, True]
    assert logs.lost == {QUEUE_FULL: 3, EXPORT_FAILED: 1}


def test_a_collector_that_is_gone_is_one_warning_and_one_more_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logs = Deliveries("logs", "http://collector:4318", capacity=10)
    with caplog.at_level(logging.INFO):
        for well in (True, False, False, False, True, True, False):
            logs.end(1, well=well, reason="refused")
    assert [record.getMessage().split(". ")[0] for record in caplog.records] == [
        "OpenTelemetry: export of logs to http://collector:4318 failed (refused)",
        "OpenTelemetry: export of logs to http://collector:4318 works again",
        "OpenTelemetry: export of logs to http://collector:4318 failed (refused)",
    ]


def test_the_exporters_own_words_are_kept_for_the_warning_and_not_printed(caplog: pytest.LogCaptureFixture) -> None:
    reasons = quiet_exporters()
    assert quiet_exporters() is reasons
    reasons.take()  # discards counts that exporters of other tests in this process left
    with caplog.at_level(logging.INFO):
        logging.getLogger("opentelemetry.exporter.otlp").error("Failed: %s", "x" * 500)
    assert caplog.records == []
    assert reasons.take() == ("Failed: " + "x" * 500)[:320]
    assert reasons.take() == ""
