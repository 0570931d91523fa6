"""Export of the audit log to a real OpenTelemetry Collector, and the log's file while the collector is stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.bad_setting import BadSetting
from fairlead_app.metrics.exposition import expose_metrics
from fairlead_otel.deliveries import EXPORT_FAILED, QUEUE_FULL
from gatewayworld import ask, calling, catalog, running
from otelcollector import RunningCollector, collector
from otlpreceiver import Receiver, attributes, otlp_receiver
from ports import free_port
from toolservers import modern_server, tool
from waiting import until_async

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"
SERVER = 2
INFO = 9
WARN = 13
AUDITED: dict[str, Any] = {"audit": "all", "audit_otlp": True, "audit_arguments": "redact", "audit_redact": ("s",)}


async def calls(tmp_path: Path, log: Path, **more: Any) -> None:
    """Make one call that succeeds, and one call of an unknown tool."""
    async with (
        modern_server([tool("add")]) as server,
        running(tmp_path, catalog("demo", server.url, ["add"]), audit_file=log, **AUDITED, **more) as gateway,
    ):
        call = calling("demo__add", {"s": "s3cret", "a": 1})
        call.headers["traceparent"] = f"00-{TRACE}-{CALLER}-01"
        await ask(gateway, call)
        await ask(gateway, calling("demo__rm"))


def audit_records(collected: RunningCollector) -> list[Any]:
    return [
        record
        for _, resource in collected.resources("resourceLogs")
        for scope in resource["scopeLogs"]
        if scope["scope"]["name"] == "fairlead.audit"
        for record in scope["logRecords"]
    ]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
async def test_lines_of_the_audit_log_reach_a_collector_at_the_span_of_their_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    log = tmp_path / "audit.log"
    async with collector(tmp_path) as collected:
        for name, value in collected.variables(protocol).items():
            monkeypatch.setenv(name, value)
        await calls(tmp_path, log)

        async def has_arrived() -> bool:
            return len(audit_records(collected)) == 2 and len(collected.spans()) == 2

        await until_async("two lines and two spans", has_arrived)
        allowed, denied = audit_records(collected)
        (call,) = (span for span in collected.spans() if span.kind == SERVER)
    assert [record["body"]["stringValue"] for record in (allowed, denied)] == log.read_text().splitlines()
    assert (allowed["traceId"], allowed["spanId"]) == (TRACE, call.ident)
    assert allowed["eventName"] == denied["eventName"] == "fairlead.audit.call"
    assert (allowed["severityNumber"], denied["severityNumber"]) == (INFO, WARN)
    attributes = {attribute["key"]: attribute["value"] for attribute in allowed["attributes"]}
    assert attributes["gen_ai.tool.name"] == {"stringValue": "add"}
    assert attributes["fairlead.audit.sequence"] == {"intValue": "1"}
    assert json.loads(allowed["body"]["stringValue"])["arguments"] == {"s": "[redacted]", "a": 1}
    assert "s3cret" not in collected.file.read_text()


async def test_a_trace_that_begins_in_the_gateway_is_in_the_line_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "audit.log"
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{receiver.url}/v1/traces")
        async with (
            modern_server([tool("add")]) as server,
            running(tmp_path, catalog("demo", server.url, ["add"]), audit_file=log, audit="all") as gateway,
        ):
            await ask(gateway, calling("demo__add"))
        call = next(span for span in receiver.spans if span.kind == SERVER)
    assert json.loads(log.read_text())["traceId"] == call.trace_id.hex()


async def test_a_collector_that_is_gone_costs_the_file_no_line_and_what_it_did_not_get_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "audit.log"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", f"http://127.0.0.1:{free_port()}/v1/logs")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setenv("OTEL_BLRP_MAX_QUEUE_SIZE", "4")
    async with (
        modern_server([tool("add")]) as server,
        running(tmp_path, catalog("demo", server.url, ["add"]), audit_file=log, **AUDITED) as gateway,
    ):
        for _ in range(12):
            await ask(gateway, calling("demo__add"))
        assert gateway.governance.pipelines is not None
        (lines,) = (each for each in gateway.governance.pipelines.deliveries if each.signal == "audit")

        async def has_lost_records() -> bool:
            return sum(lines.lost.values()) >= 12 - 4 and lines.lost[EXPORT_FAILED] > 0

        await until_async("lines that the collector did not get", has_lost_records)
        page = (await expose_metrics(gateway.metrics))[0].decode()
    assert f'fairlead_otel_dropped_total{{reason="queue_full",signal="audit"}} {lines.lost[QUEUE_FULL]}.0' in page
    assert len(log.read_text().splitlines()) == 12
    warnings = [
        record.getMessage() for record in caplog.records if "export of lines of the audit log to" in record.message
    ]
    assert len(warnings) == 1


async def test_without_the_setting_no_line_of_the_audit_log_leaves_by_otlp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        async with (
            modern_server([tool("add")]) as server,
            running(tmp_path, catalog("demo", server.url, ["add"]), audit_file=tmp_path / "a", audit="all") as gateway,
        ):
            await ask(gateway, calling("demo__add"))
        assert len((tmp_path / "a").read_text().splitlines()) == 1
        assert not _audit_records_of(receiver)


@pytest.mark.parametrize("environ", [{}, {"OTEL_TRACES_EXPORTER": "otlp"}])
async def test_a_gateway_whose_audit_log_cannot_leave_as_it_was_told_to_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BadSetting, match="FAIRLEAD_AUDIT_OTLP is set, but logs are not exported"):
        await calls(tmp_path, tmp_path / "audit.log")


def _audit_records_of(receiver: Receiver) -> list[Any]:
    return [record for record in receiver.logs if "fairlead.audit.decision" in attributes(record)]
