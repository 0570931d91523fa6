"""Accounts of calls: limits, those shared with other replicas, the audit log, and traces.

Started and stopped with the gateway; its metrics are served beside the others.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead_api.bad_setting import BadSetting
from fairlead_api.extras import install_command
from fairlead_app.settings import RecordSettings
from fairlead_gateway.audit.arguments import BadPath, argument_renderer, read_path
from fairlead_gateway.audit.auditor import Auditor
from fairlead_gateway.audit.lines import line_of
from fairlead_gateway.audit.settings import AuditSettings
from fairlead_gateway.audit.sink import File, LogOutput
from fairlead_gateway.audit.writer import Writer
from fairlead_gateway.context.memory import MemoryStore
from fairlead_gateway.context.settings import ResultSettings
from fairlead_gateway.context.store import Bounds, ContextStore
from fairlead_gateway.core.quota import Caps
from fairlead_gateway.core.redis_settings import RedisSettings
from fairlead_gateway.endpoint.trusted_proxies import TrustedProxies
from fairlead_gateway.limits.limiter import Limiter, TokenLimiter
from fairlead_gateway.limits.rate import Sharing
from fairlead_gateway.limits.settings import LimitSettings
from fairlead_gateway.recent.ring import ArgumentRenderer, RecentCalls
from fairlead_gateway.recent.settings import RecentCallSettings
from fairlead_gateway.telemetry import MetricsRegistry
from fairlead_gateway.tracing.configured import spans_of
from fairlead_otel.opening import open_pipelines

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from fairlead_gateway.limits.redis_rates import Settler
    from fairlead_otel.pipelines import Pipelines

SERVICE = "fairlead-gateway"
"""Name of the service in traces, metrics and logs, unless OTEL_SERVICE_NAME gives another."""
KEY_BYTES = 32
_NO_LOGS = (
    "FAIRLEAD_AUDIT_OTLP is set, and logs are not exported: set OTEL_EXPORTER_OTLP_ENDPOINT, or OTEL_LOGS_EXPORTER to "
    "otlp, and add the extra otel: "
)


class Governance(Collector):
    """Limiter, audit log and tracing of one gateway, and their metrics."""

    def __init__(
        self,
        limits: LimitSettings,
        records: RecordSettings,
        metrics: MetricsRegistry,
        clock: Callable[[], float] = time.monotonic,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """`environ` has the variables of OpenTelemetry. Raises BadSetting."""
        self._metrics = metrics
        self.sharing = Sharing() if limits.redis.url else None
        self._settler = None if self.sharing is None else _settler(limits.redis, self.sharing, clock)
        caps = Caps(limits.calls_per_minute, limits.concurrency)
        self.limiter = Limiter(caps, self.sharing, clock)
        self.tokens = TokenLimiter(limits.tokens_per_day, self.sharing)
        tells = _teller(records.audit)
        tell = None if records.audit.calls == "off" else tells
        self.recent = _recent(records.recent, None if records.audit.arguments == "none" else tell, clock)
        """The last calls; None where none are kept."""
        self.pipelines = open_pipelines(environ, SERVICE)
        """None where nothing is exported by OpenTelemetry."""
        self.auditor = None if tell is None else _auditor(records.audit, tell, self.pipelines)
        """None where the audit log is off."""
        self.spans = spans_of(self.pipelines)
        """None where calls are not traced."""

    def start(self, registry: CollectorRegistry) -> None:
        """`registry`: the gateway's metrics, which are exported where OpenTelemetry is asked to."""
        if self.pipelines is not None:
            self.pipelines.keep_logs()
            self.pipelines.read_metrics(registry)
        if self._settler is not None:
            self._settler.start()

    async def stop(self) -> None:
        if self._settler is not None:
            await self._settler.stop()
        if self.auditor is not None:
            await asyncio.to_thread(self.auditor.writer.close)
        if self.pipelines is not None:
            await asyncio.to_thread(self.pipelines.close)

    def collect(self) -> Iterable[Metric]:
        text = "Calls refused because there were too many, by what bounds them: agent, policy, tool, server"
        limited = CounterMetricFamily("fairlead_calls_limited", text, labels=["scope"])
        for scope, count in list(self._metrics.limited.items()):
            limited.add_metric([scope], count)
        yield limited
        text = "Agents, and agents in namespaces, that limits keep count of"
        yield GaugeMetricFamily("fairlead_limit_accounts", text, value=len(self.limiter) + len(self.tokens))
        if self._settler is not None:
            yield from self._redis_metrics(self._settler)
        if self.auditor is not None:
            yield from _audit_metrics(self.auditor.writer)
        if self.pipelines is not None:
            yield from _export_metrics(self.pipelines)

    def _redis_metrics(self, settler: Settler) -> Iterable[Metric]:
        text = "1 while Redis answers, and limits are shared with other replicas"
        yield GaugeMetricFamily("fairlead_redis_up", text, value=float(settler.up is True))
        text = "Times that limits were settled with other replicas"
        yield CounterMetricFamily("fairlead_redis_settlements", text, value=settler.settlements)
        yield CounterMetricFamily("fairlead_redis_failures", "Times that Redis did not answer", value=settler.failures)


def _audit_metrics(writer: Writer) -> Iterable[Metric]:
    yield CounterMetricFamily("fairlead_audit_lines", "Lines of the audit log that were written", value=writer.written)
    lost = CounterMetricFamily("fairlead_audit_lines_lost", "Lines of the audit log that are lost", labels=["reason"])
    lost.add_metric(["overflow"], writer.overflowed)
    lost.add_metric(["failure"], writer.failed)
    yield lost


def _export_metrics(pipelines: Pipelines) -> Iterable[Metric]:
    text = "Spans, log records, audit lines and readings of the metrics that a collector of OpenTelemetry took"
    sent = CounterMetricFamily("fairlead_otel_exported", text, labels=["signal"])
    text = "Spans, log records, audit lines and readings lost on their way to a collector: queue_full, export_failed"
    lost = CounterMetricFamily("fairlead_otel_dropped", text, labels=["signal", "reason"])
    for deliveries in pipelines.deliveries:
        sent.add_metric([deliveries.signal], deliveries.sent)
        for reason, count in deliveries.lost.items():
            lost.add_metric([deliveries.signal, reason], count)
    yield from (sent, lost)


def _settler(redis: RedisSettings, sharing: Sharing, clock: Callable[[], float]) -> Settler:
    # only where it is asked for: the client takes a tenth of a second to import
    from fairlead_gateway.limits.redis_rates import Settler
    from fairlead_gateway.redis_client import BadUrl

    try:
        return Settler(redis, sharing, clock)
    except BadUrl as error:
        raise BadSetting(f"FAIRLEAD_REDIS cannot be used: {error}") from error


def result_store(
    settings: ResultSettings, redis: RedisSettings, clock: Callable[[], float] = time.monotonic
) -> ContextStore | None:
    """Store of results of `execute_tool`; None where none are kept. Raises BadSetting."""
    if not settings.bytes or not settings.bytes_each:
        return None
    bounds = Bounds(settings.seconds, settings.bytes_each, settings.bytes)
    if settings.directory is not None:
        return _disk_store(settings.directory, bounds)
    if not redis.url:
        return MemoryStore(bounds, clock)
    from fairlead_gateway.context.redis_store import RedisStore
    from fairlead_gateway.redis_client import BadUrl

    try:
        return RedisStore(redis, bounds, clock)
    except BadUrl as error:
        raise BadSetting(f"FAIRLEAD_REDIS cannot be used: {error}") from error


def _disk_store(directory: Path, bounds: Bounds) -> ContextStore:
    """Raises BadSetting."""
    import sqlite3

    from fairlead_gateway.context.disk import DiskStore

    try:
        return DiskStore(directory, bounds)
    except (OSError, sqlite3.Error) as error:
        raise BadSetting(f"FAIRLEAD_CONTEXT_DIRECTORY is {directory}, which cannot be used: {error}") from error


def configured_proxies(networks: Sequence[str]) -> TrustedProxies:
    """Proxies that an installation trusts. Raises BadSetting."""
    try:
        return TrustedProxies(networks)
    except ValueError as error:
        raise BadSetting(str(error)) from error


def _teller(settings: AuditSettings) -> ArgumentRenderer:
    """Maker of what lines say of arguments. Raises BadSetting."""
    mode = settings.arguments
    if mode == "redact" and not settings.redact:
        raise BadSetting("FAIRLEAD_AUDIT_ARGUMENTS is redact, and FAIRLEAD_AUDIT_REDACT names no paths: say which")
    try:
        paths = [read_path(path) for path in settings.redact]
    except BadPath as error:
        raise BadSetting(f"FAIRLEAD_AUDIT_REDACT: {error}") from error
    return argument_renderer(mode, settings.key.encode() or os.urandom(KEY_BYTES), paths)


def _auditor(settings: AuditSettings, tell: ArgumentRenderer, pipelines: Pipelines | None) -> Auditor:
    """Raises BadSetting."""
    emit = None
    if settings.otlp:
        emit = None if pipelines is None else pipelines.open_audit()
        if emit is None:
            if pipelines is not None:
                pipelines.close()
            raise BadSetting(_NO_LOGS + install_command("otel"))
    sink = LogOutput() if settings.file is None else File(settings.file, settings.file_bytes)
    writer = Writer(sink, partial(line_of, render_arguments=tell), time.time, emit=emit)
    return Auditor(writer, settings.calls, settings.arguments)


def _recent(
    settings: RecentCallSettings, tell: ArgumentRenderer | None, clock: Callable[[], float]
) -> RecentCalls | None:
    """`tell` is None where the audit log has no arguments: they are not kept then."""
    return RecentCalls(settings.most, settings.bytes, tell, clock) if settings.most else None
