"""Costs of limits, audit log and traces per call, and the waiting time that fair queueing saves modest agents.

Costs are processor time of one thread for the objects of a real gateway, without HTTP. Waiting times are measured on
the guard of a server in virtual time, so they do not depend on the machine: one agent keeps 500 calls outstanding, nine
others make one call a second each, and the server takes 16 at once, 50 ms each on average. With --long, gateways with
and without all that are compared: processor time of a whole call, ratios within a round.
"""

from __future__ import annotations

import heapq
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Raw
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult, SimpleLogRecordProcessor

from fairlead_api.meta import ServerKey
from fairlead_gateway.audit.auditor import Auditor
from fairlead_gateway.audit.entry import ALLOWED, AuditedCall, AuditEntry
from fairlead_gateway.audit.events import event_of
from fairlead_gateway.audit.lines import line_of
from fairlead_gateway.audit.writer import Writer
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.quota import Caps
from fairlead_gateway.limits.limiter import Lease, Limiter, LimitRefusal
from fairlead_gateway.limits.rate import Sharing
from fairlead_gateway.telemetry import MetricsRegistry
from fairlead_gateway.tracing.trace import TRACEPARENT, pass_on
from fairlead_gateway.upstream.guard import QUEUED, Guard, Timing
from fairlead_gateway.upstream.server_facts import AdmissionLimits
from fairlead_mcp.errors import McpError
from fairlead_otel.log_records import OtlpEvents
from gateway.gateways import VERSIONS, catalog, contents, gateway_over, start_upstream, write_documents
from rig.harness import Goal, Report, Sample, Settings, interleaved, ratios
from rig.loadtools import Load, run_load
from rig.processes import Stage, cores

MANY = 10**9
LIMITED = {"FAIRLEAD_AGENT_CALLS_PER_MINUTE": str(MANY), "FAIRLEAD_AGENT_CONCURRENCY": str(MANY)}
RECORDS = 512
"""Log records per request to a collector: the default of OpenTelemetry's SDK."""
OUTSTANDING, PLACES, SERVICE_SECONDS, POLITE = 500, 16, 0.05, 9
KEY = ServerKey("default", "demo")
PARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Share(msgspec.Struct, frozen=True):
    """Share of a namespace's servers that policies allow one subject."""

    namespace: str = "default"
    calls_per_minute: int | None = MANY
    concurrency: int | None = MANY


class Asked:
    """Client side of a request."""

    identity = Identity(kind="apiKey", principal="apiKey:qa", agent="qa")
    address = "10.0.0.1"
    headers: Mapping[bytes, bytes] = MappingProxyType({TRACEPARENT: PARENT})


class Nowhere:
    """A stream that drops the lines written to it."""

    def write(self, lines: bytes) -> None: ...

    def close(self) -> None: ...


def admitting(limiter: Limiter, *more: Any) -> Callable[[], None]:
    """Admit a call and end it."""

    def call() -> None:
        admission: Lease | LimitRefusal = limiter.admit("apiKey:qa", *more)
        assert not isinstance(admission, LimitRefusal)
        for account in admission:
            account.leave()

    return call


def works() -> dict[str, Callable[[], object]]:
    """Functions to measure, by name."""
    both = Caps(MANY, MANY)
    guard = Guard("default/demo", AdmissionLimits(64), Timing(lambda delay, action: None))
    denials = Auditor(Writer(Nowhere(), lambda entry: b"", time.time), "denials")
    params = {"arguments": Raw(b'{"a":1}'), "_meta": Raw(b'{"k":1}')}
    everything = Auditor(Writer(Nowhere(), lambda entry: b"", time.time, capacity=MANY), "all")
    entry = AuditEntry(1.0, ALLOWED, Asked.identity, "10.0.0.1", "tools/call", "add", KEY, "", "", 0.01, 100, PARENT)

    request = Asked()

    def through_the_guard() -> None:
        assert guard.enter_now()
        guard.leave_after_success()

    def audited(auditor: Auditor) -> Callable[[], None]:
        def call() -> None:
            auditor.record_call(request, AuditedCall("tools/call", "add", params, "", KEY, 0.01, 100))

        return call

    return {
        "limits: none is set": admitting(Limiter()),
        "limits: of agents": admitting(Limiter(both)),
        "limits: of agents and of a policy": admitting(Limiter(both), Share()),
        "limits: of agents, of a policy, of a tool": admitting(Limiter(both), Share(), "default/demo/add", both),
        "limits: of agents and of a policy, shared": admitting(Limiter(both, Sharing()), Share()),
        "the guard of a server that has room": through_the_guard,
        "audit: denials, of a call that is allowed": audited(denials),
        "audit: all": audited(everything),
        "audit: the line, in its thread": lambda: line_of(entry, lambda raw: {}),
        "audit: its record for OTLP, made and encoded, in threads": recorded(entry),
        "trace: exemplars of a call and of its tier": exemplified(),
        "trace: from the headers of a request to its server": lambda: pass_on(params, Asked.headers),
    }


class Encoder(LogRecordExporter):
    """Encodes batches of records like an exporter to a collector, but does not send them."""

    def __init__(self) -> None:
        self._batch: list[ReadableLogRecord] = []

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        self._batch += batch
        if len(self._batch) >= RECORDS:
            encode_logs(self._batch).SerializeToString()
            self._batch = []
        return LogRecordExportResult.SUCCESS

    def shutdown(self) -> None:
        """No-op: nothing has to be closed."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True


def recorded(entry: AuditEntry) -> Callable[[], None]:
    """An audit entry that is also sent by OTLP: the record and its encoding."""
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(Encoder()))
    events, line = OtlpEvents(provider.get_logger("bench")), line_of(entry, lambda raw: {})
    return lambda: events.emit(event_of(entry, line, 1))


def exemplified() -> Callable[[], None]:
    """Exemplars that a traced call adds to histograms, in addition to the work of every call."""
    registry = MetricsRegistry()
    registry.set_tiers({"fast": 500})
    recorder = registry.recorder("tools/call", "add", "default/demo")
    recorder.record(MANY)

    def call() -> None:
        recorder.set_exemplar(MANY, "", "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
        registry.set_wait_exemplar("fast", MANY, "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")

    return call


def microseconds(work: Callable[[], object], times: int) -> float:
    """Processor time of this thread, in microseconds."""
    for _ in range(times // 10):
        work()
    began = time.thread_time_ns()
    for _ in range(times):
        work()
    return (time.thread_time_ns() - began) / times / 1000


class World:
    """A server behind its admission guard, in virtual time."""

    def __init__(self, *, turns: bool, seed: int) -> None:
        self.now = 0.0
        self.turns = turns
        self.random = random.Random(seed)
        self.waits: list[float] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        bounds = AdmissionLimits(PLACES, waiting=10_000, queue=1e9)
        self.guard = Guard("default/demo", bounds, Timing(self.later, lambda: self.now, self.random.random))

    def later(self, delay: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + delay, self._count, action))

    def run(self, seconds: float) -> list[float]:
        for _ in range(OUTSTANDING):
            Visit(self, "greedy").begin()
        for number in range(POLITE):
            self.later(self.random.expovariate(1.0), Visit(self, f"polite {number}").begin)
        while self.now < seconds:
            self.now, _, action = heapq.heappop(self._events)
            action()
        return self.waits


class Visit:
    """An agent that makes its calls one after the other."""

    deadline = float("inf")

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self.agent = name if world.turns else "everybody"
        self._began = 0.0

    def begin(self) -> None:
        self._began = self._world.now
        ticket = self._world.guard.enter(self)
        if ticket != QUEUED:
            self.proceed(ticket)

    def proceed(self, ticket: int) -> None:
        if self._name != "greedy":
            self._world.waits.append(self._world.now - self._began)
        self._world.later(self._world.random.expovariate(1 / SERVICE_SECONDS), self.end)

    def reject(self, error: McpError) -> None:
        raise error

    def end(self) -> None:
        again = Visit(self._world, self._name)
        self._world.guard.leave_after_success()
        if self._name == "greedy":
            again.begin()
        else:
            self._world.later(self._world.random.expovariate(1.0), again.begin)


def through_gateways(settings: Settings, report: Report) -> None:
    """Measure whole gateways with the features, and one without them."""
    variants = {
        "a gateway without limits and audit log": {"FAIRLEAD_AUDIT": "off"},
        "… with limits of agents": {"FAIRLEAD_AUDIT": "off", **LIMITED},
        "… with limits of agents and an audit log of all calls": {"FAIRLEAD_AUDIT": "all", **LIMITED},
    }
    costs: dict[str, dict[int, float]] = {name: {} for name in variants}
    with Stage() as stage:
        hop, rest = cores()
        upstream = start_upstream(stage, "upstream", rest)
        documents = stage.folder / "documents"
        write_documents(documents, contents([catalog("modern", upstream.port)], decided=False))
        gateways = {}
        for number, (name, environment) in enumerate(variants.items()):
            os.environ.update({"FAIRLEAD_AUDIT_FILE": str(stage.folder / "audit.log"), **environment})
            gateways[name] = gateway_over(stage, documents, hop, name=f"gateway-{number}")
        seconds = 0.7 if settings.quick else 3.0
        for number, name in interleaved(list(variants), settings.rounds):
            load = Load(gateways[name].port, "/mcp", "modern__echo", VERSIONS["modern"], 4, seconds, 0.5)
            costs[name][number] = run_load(stage, load, gateways[name].pid, [upstream.pid], core=rest).cpu
    without = costs[next(iter(variants))]
    for name, rounds in costs.items():
        cost = Sample.of(rounds.values())
        report.rows.append({"what": name, "µs": cost, "p50 wait ms": None, "p99 wait ms": None})
        report.notes.append(f"{name}: {ratios(rounds, without)} of the processor time of one without")


def run(settings: Settings) -> Report:
    """Measure."""
    report = Report("limits")
    times = 20_000 if settings.quick else 100_000
    costs = {name: [microseconds(work, times) for _ in range(settings.rounds)] for name, work in works().items()}
    for name, cost in costs.items():
        report.rows.append({"what": name, "µs": Sample.of(cost), "p50 wait ms": None, "p99 wait ms": None})
    seconds = 60.0 if settings.quick else 600.0
    for turns, name in ((False, "beside a greedy agent: first come, first served"), (True, "… in turns")):
        waits = sorted(World(turns=turns, seed=1).run(seconds))
        p50, p99 = (waits[int(len(waits) * share)] * 1000 for share in (0.5, 0.99))
        report.rows.append({"what": name, "µs": None, "p50 wait ms": round(p50, 2), "p99 wait ms": round(p99, 2)})
    if settings.long:
        through_gateways(settings, report)
    decided = Sample.of(costs["limits: of agents and of a policy"]).median
    report.goals.append(Goal("limits of a call", decided, "µs", at_most=2.0))
    report.goals.append(Goal("audit of a call, on its path", Sample.of(costs["audit: all"]).median, "µs", at_most=2.0))
    return report
