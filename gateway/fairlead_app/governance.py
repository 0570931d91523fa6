"""Limits, the audit log and traces of calls, with the Redis client for limits that replicas share."""

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
from fairlead_gateway.core.quota import Caps
from fairlead_gateway.core.redis_settings import RedisSettings
from fairlead_gateway.endpoint.trusted_proxies import TrustedProxies
from fairlead_gateway.limits.limiter import Limiter, TokenLimiter
from fairlead_gateway.limits.rate import Sharing
from fairlead_gateway.limits.settings import LimitSettings
from fairlead_gateway.recent.ring import ArgumentRenderer, RecentCalls
from fairlead_gateway.recent.settings import RecentCallSettings
from fairlead_gateway.result_stores.memory import MemoryStore
from fairlead_gateway.result_stores.settings import ResultSettings
from fairlead_gateway.result_stores.store import Bounds, ContextStore
from fairlead_gateway.telemetry import MetricsRegistry
from fairlead_gateway.tracing.configured import spans_of
from fairlead_otel.opening import open_pipelines

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from fairlead_gateway.limits.redis_rates import Settler
    from fairlead_otel.pipelines import Pipelines

SERVICE = "fairlead-gateway"
"""Default of OTEL_SERVICE_NAME, the name of the service in traces, metrics and logs."""
KEY_BYTES = 32
"""Length in bytes of the random key for hashes of arguments in the audit log, if no key is configured."""
_NO_LOGS = (
    "FAIRLEAD_AUDIT_OTLP is set, but logs are not exported: set OTEL_EXPORTER_OTLP_ENDPOINT, or OTEL_LOGS_EXPORTER to "
    "otlp, and install the extra otel: "
)


class Governance(Collector):
    """Limiter, audit log and tracing of one gateway, with their metrics."""

    def __init__(
        self,
        limits: LimitSettings,
        records: RecordSettings,
        metrics: MetricsRegistry,
        clock: Callable[[], float] = time.monotonic,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """`environ` has the environment variables of OpenTelemetry. Raises BadSetting."""
        self._metrics = metrics
        self.sharing = Sharing() if limits.redis.url else None
        """State of limits that replicas synchronize through Redis; None if each replica has its own limits."""
        self._settler = None if self.sharing is None else _settler(limits.redis, self.sharing, clock)
        caps = Caps(limits.calls_per_minute, limits.concurrency)
        self.limiter = Limiter(caps, self.sharing, clock)
        self.tokens = TokenLimiter(limits.tokens_per_day, self.sharing)
        """Limiter of the tokens per day at the model endpoints."""
        renderer = _argument_renderer(records.audit)
        render_arguments = None if records.audit.calls == "off" else renderer
        self.recent = _recent(records.recent, None if records.audit.arguments == "none" else render_arguments, clock)
        """Ring buffer of recent calls; None if it is disabled."""
        self.pipelines = open_pipelines(environ, SERVICE)
        """Pipelines of the OpenTelemetry export; None if nothing is exported."""
        self.auditor = None if render_arguments is None else _auditor(records.audit, render_arguments, self.pipelines)
        """Writer of the audit log; None if it is off."""
        self.spans = spans_of(self.pipelines)
        """Factory of trace spans; None if calls are not traced."""

    def start(self, registry: CollectorRegistry) -> None:
        """Start the OpenTelemetry export of `registry`, and the exchange of used quotas with other replicas, if they
        are configured.
        """
        if self.pipelines is not None:
            self.pipelines.export_logs()
            self.pipelines.export_metrics(registry)
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
        text = "Calls refused because of a limit on their number, by scope of the limit: agent, policy, tool, server"
        family = CounterMetricFamily("fairlead_calls_limited", text, labels=["scope"])
        for scope, count in list(self._metrics.limited.items()):
            family.add_metric([scope], count)
        yield family
        text = "Agents, and pairs of agent and namespace, whose calls are counted by limits"
        yield GaugeMetricFamily("fairlead_limit_accounts", text, value=len(self.limiter) + len(self.tokens))
        if self._settler is not None:
            yield from self._redis_metrics(self._settler)
        if self.auditor is not None:
            yield from _audit_metrics(self.auditor.writer)
        if self.pipelines is not None:
            yield from _export_metrics(self.pipelines)

    def _redis_metrics(self, settler: Settler) -> Iterable[Metric]:
        text = "1 while Redis answers and limits are shared with other replicas, 0 otherwise"
        yield GaugeMetricFamily("fairlead_redis_up", text, value=float(settler.up is True))
        text = "Synchronizations of the limits with other replicas through Redis"
        yield CounterMetricFamily("fairlead_redis_settlements", text, value=settler.settlements)
        yield CounterMetricFamily(
            "fairlead_redis_failures", "Requests that Redis did not answer", value=settler.failures
        )


def _audit_metrics(writer: Writer) -> Iterable[Metric]:
    yield CounterMetricFamily("fairlead_audit_lines", "Lines written to the audit log", value=writer.written)
    lost = CounterMetricFamily("fairlead_audit_lines_lost", "Lines lost from the audit log", labels=["reason"])
    lost.add_metric(["overflow"], writer.overflowed)
    lost.add_metric(["failure"], writer.failed)
    yield lost


def _export_metrics(pipelines: Pipelines) -> Iterable[Metric]:
    text = "Spans, log records, audit lines and metric readings accepted by an OpenTelemetry collector"
    sent = CounterMetricFamily("fairlead_otel_exported", text, labels=["signal"])
    text = "Spans, log records, audit lines and metric readings not exported, by reason: queue_full, export_failed"
    lost = CounterMetricFamily("fairlead_otel_dropped", text, labels=["signal", "reason"])
    for deliveries in pipelines.deliveries:
        sent.add_metric([deliveries.signal], deliveries.sent)
        for reason, count in deliveries.lost.items():
            lost.add_metric([deliveries.signal, reason], count)
    yield from (sent, lost)


def _settler(redis: RedisSettings, sharing: Sharing, clock: Callable[[], float]) -> Settler:
    # imported only if configured, because the import of the Redis client takes a tenth of a second
    from fairlead_gateway.limits.redis_rates import Settler
    from fairlead_gateway.redis_client import BadUrl

    try:
        return Settler(redis, sharing, clock)
    except BadUrl as error:
        raise BadSetting(f"FAIRLEAD_REDIS cannot be used: {error}") from error


def result_store(
    settings: ResultSettings, redis: RedisSettings, clock: Callable[[], float] = time.monotonic
) -> ContextStore | None:
    """Store for results; None if results are not stored. Raises BadSetting."""
    if not settings.bytes or not settings.bytes_each:
        return None
    bounds = Bounds(settings.seconds, settings.bytes_each, settings.bytes)
    if settings.directory is not None:
        return _disk_store(settings.directory, bounds)
    if not redis.url:
        return MemoryStore(bounds, clock)
    from fairlead_gateway.redis_client import BadUrl
    from fairlead_gateway.result_stores.redis_store import RedisStore

    try:
        return RedisStore(redis, bounds, clock)
    except BadUrl as error:
        raise BadSetting(f"FAIRLEAD_REDIS cannot be used: {error}") from error


def _disk_store(directory: Path, bounds: Bounds) -> ContextStore:
    """Open the store for results in a directory. Raises BadSetting."""
    import sqlite3

    from fairlead_gateway.result_stores.disk import DiskStore

    try:
        return DiskStore(directory, bounds)
    except (OSError, sqlite3.Error) as error:
        raise BadSetting(f"FAIRLEAD_CONTEXT_DIRECTORY is {directory}, which cannot be used: {error}") from error


def configured_proxies(networks: Sequence[str]) -> TrustedProxies:
    """Trusted proxies from their networks. Raises BadSetting."""
    try:
        return TrustedProxies(networks)
    except ValueError as error:
        raise BadSetting(str(error)) from error


def _argument_renderer(settings: AuditSettings) -> ArgumentRenderer:
    """Function that renders arguments for the audit log. Raises BadSetting."""
    mode = settings.arguments
    if mode == "redact" and not settings.redact:
        raise BadSetting("FAIRLEAD_AUDIT_ARGUMENTS is redact: set FAIRLEAD_AUDIT_REDACT to the paths to redact")
    try:
        paths = [read_path(path) for path in settings.redact]
    except BadPath as error:
        raise BadSetting(f"FAIRLEAD_AUDIT_REDACT: {error}") from error
    return argument_renderer(mode, settings.key.encode() or os.urandom(KEY_BYTES), paths)


def _auditor(settings: AuditSettings, render_arguments: ArgumentRenderer, pipelines: Pipelines | None) -> Auditor:
    """Create the writer of the audit log. Raises BadSetting."""
    emit = None
    if settings.otlp:
        emit = None if pipelines is None else pipelines.open_audit()
        if emit is None:
            if pipelines is not None:
                pipelines.close()
            raise BadSetting(_NO_LOGS + install_command("otel"))
    sink = LogOutput() if settings.file is None else File(settings.file, settings.file_bytes)
    writer = Writer(sink, partial(line_of, render_arguments=render_arguments), time.time, emit=emit)
    return Auditor(writer, settings.calls, settings.arguments)


def _recent(
    settings: RecentCallSettings, render_arguments: ArgumentRenderer | None, clock: Callable[[], float]
) -> RecentCalls | None:
    """Ring buffer of recent calls; None if it is disabled. If `render_arguments` is None, the arguments of calls are
    not stored.
    """
    return RecentCalls(settings.max_calls, settings.bytes, render_arguments, clock) if settings.max_calls else None
