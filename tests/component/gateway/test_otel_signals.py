"""Metrics, logs and exemplars that a collector and a Prometheus get from a gateway, and an unreachable collector."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.request import Request as HttpRequest
from urllib.request import urlopen

import pytest

from fairlead_api.documents.rules import Rules, Tier
from fairlead_app.gateway import Gateway
from fairlead_app.metrics.exposition import DURATION, expose_metrics
from fairlead_otel.deliveries import EXPORT_FAILED, QUEUE_FULL
from gatewayworld import ask, calling, catalog, running
from otlpreceiver import Receiver, attributes, otlp_receiver
from ports import free_port
from prometheus import prometheus
from toolservers import modern_server, tool
from waiting import until_async

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@contextlib.asynccontextmanager
async def served(tmp_path: Path, **more: Any) -> AsyncIterator[Gateway]:
    async with (
        modern_server([tool("add")]) as server,
        running(tmp_path, catalog("demo", server.url, tools=["add"]), **more) as gateway,
    ):
        yield gateway


def point_of(receiver: Receiver, tool_name: str) -> Any:
    """Histogram of a tool's calls in the last export."""
    metric = [each for each in receiver.metrics if each.name == DURATION][-1]
    return next(each for each in metric.histogram.data_points if attributes(each)["gen_ai_tool_name"] == tool_name)


async def test_the_metrics_of_the_gateway_reach_a_collector_with_an_exemplar_of_each_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc")
        async with served(tmp_path) as gateway:
            await ask(gateway, calling("demo__add"))
        call = next(span for span in receiver.spans if span.kind == 2)
        point = point_of(receiver, "add")
        assert point.count == sum(point.bucket_counts) == 1
        assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
        assert not point.HasField("min")
        (exemplar,) = point.exemplars
        assert (exemplar.trace_id, exemplar.span_id) == (call.trace_id, call.span_id)
        assert exemplar.as_double == pytest.approx(point.sum)
        named = {each.name: each for each in receiver.metrics}
        assert named["fairlead_catalog_tools"].gauge.data_points[0].as_double == 1
        assert named["fairlead_catalog_swaps"].sum.is_monotonic
        assert {each["authorization"] for each in receiver.headers} == {"Bearer abc"}


async def test_the_log_of_the_gateway_reaches_a_collector_with_the_trace_of_a_call_that_failed_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_defect(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("a defect")

    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setattr("fairlead_gateway.limits.limiter.Limiter.admit", raise_defect)
        async with served(tmp_path, agent_calls_per_minute=100) as gateway:
            await ask(gateway, calling("demo__add"))
            logging.getLogger("fairlead_gateway").warning("Nothing of a call")
        call = next(span for span in receiver.spans if span.kind == 2)
        records = {record.body.string_value: record for record in receiver.logs}
        failed = records[
            "tools/call add of server default/demo failed because of a defect in the gateway; please report it"
        ]
        assert (failed.trace_id, failed.span_id) == (call.trace_id, call.span_id)
        assert failed.severity_text == "ERROR"
        assert attributes(failed)["exception.type"] == "ZeroDivisionError"
        assert records["Nothing of a call"].trace_id == b""


async def test_openmetrics_has_exemplars_and_the_plain_text_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{receiver.url}/v1/traces")
        async with served(tmp_path) as gateway:
            await ask(gateway, calling("demo__add"))
            plain, plain_type = await expose_metrics(gateway.metrics)
            wanted = HttpRequest(f"http://127.0.0.1:{gateway.metrics_port}/metrics", headers={"accept": OPENMETRICS})
            page = await _fetch(wanted)
        call = next(span for span in receiver.spans if span.kind == 2)
        assert receiver.metrics == receiver.logs == []
    (line,) = [line for line in page.splitlines() if " # {" in line]
    assert line.startswith(f"{DURATION}_bucket{{")
    assert f'# {{span_id="{call.span_id.hex()}",trace_id="{call.trace_id.hex()}"}} 0.' in line
    assert page.endswith("# EOF\n")
    assert plain_type == "text/plain; version=0.0.4; charset=utf-8"
    assert b" # {" not in plain


async def test_waits_of_a_tier_have_an_exemplar_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        tiers = Rules(tiers=(Tier(name="fast", max_latency_ms=500),))
        async with (
            modern_server([tool("add")]) as server,
            running(tmp_path, catalog("demo", server.url, tools=["add"]), tiers) as gateway,
        ):
            await ask(gateway, calling("demo__add").to("/mcp/fast"))
            page = (await expose_metrics(gateway.metrics, OPENMETRICS))[0].decode()
        call = next(span for span in receiver.spans if span.kind == 2)
    waits = [line for line in page.splitlines() if line.startswith("fairlead_tier_call_duration") and " # {" in line]
    (line,) = waits
    assert f'span_id="{call.span_id.hex()}",trace_id="{call.trace_id.hex()}"' in line


async def test_a_real_prometheus_keeps_the_exemplars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prometheus").mkdir()
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{receiver.url}/v1/traces")
        async with served(tmp_path) as gateway:
            await ask(gateway, calling("demo__add"))
            async with prometheus(tmp_path / "prometheus", {"gateway": gateway.metrics_port}, "groups: []") as watch:
                exemplars: list[dict[str, str]] = []

                async def is_stored() -> bool:
                    exemplars[:] = await watch.exemplars(f"{DURATION}_bucket", 60)
                    return bool(exemplars)

                await until_async("exemplars", is_stored)
                assert await watch.query('up{job="gateway"} == 1')
        call = next(span for span in receiver.spans if span.kind == 2)
    assert exemplars == [{"trace_id": call.trace_id.hex(), "span_id": call.span_id.hex()}]


async def test_calls_go_on_while_the_collector_is_gone_and_what_is_lost_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"http://127.0.0.1:{free_port()}/v1/traces")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
    async with served(tmp_path) as gateway:
        for _ in range(6):  # each call has two spans
            answer = await ask(gateway, calling("demo__add"))
            assert answer.message["result"]["isError"] is False
        assert gateway.governance.pipelines is not None
        (traces,) = gateway.governance.pipelines.deliveries

        async def has_lost_traces() -> bool:
            return traces.lost[EXPORT_FAILED] > 0

        await until_async("spans that were not taken", has_lost_traces)
        assert traces.lost[QUEUE_FULL] >= 12 - 4 - traces.lost[EXPORT_FAILED]
        page = (await expose_metrics(gateway.metrics))[0].decode()
    assert f'fairlead_otel_dropped_total{{reason="queue_full",signal="traces"}} {traces.lost[QUEUE_FULL]}.0' in page
    warnings = [record.getMessage() for record in caplog.records if record.name.startswith("fairlead_otel")]
    assert len(warnings) == 1
    assert "export of traces to http://127.0.0.1:" in warnings[0]


async def _fetch(request: HttpRequest) -> str:
    def fetch() -> str:
        with urlopen(request, timeout=20) as answer:
            assert answer.headers["content-type"].startswith("application/openmetrics-text")
            return str(answer.read().decode())

    return await asyncio.to_thread(fetch)
