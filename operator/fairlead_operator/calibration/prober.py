"""Probes servers: one task per server and one call at a time, over a session that is closed during long pauses.

The leader's reconciler owns the prober. Discoveries never wait for it. A `ProbeObserver` (the timekeeper) receives the
measurements; `schedule` decides when each tool is due.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from fairlead_api.documents.catalog import Credential, Endpoint
from fairlead_api.meta import ServerKey
from fairlead_mcp.errors import ConnectionLost, McpError
from fairlead_mcp.masking import Mask
from fairlead_mcp.session import McpSession
from fairlead_operator.calibration.budget import ProbeBudget
from fairlead_operator.calibration.call import ProbeResult, call, round_trip
from fairlead_operator.calibration.plan import PlannedProbe, ProbePlan
from fairlead_operator.calibration.schedule import ProbeOutcome, ProbeSchedule
from fairlead_operator.clocks import Clocks
from fairlead_operator.discovery.request_slots import Slot
from fairlead_operator.latency.samples import AttemptOutcome, Sample
from fairlead_operator.ports import ConditionVerdict, Connector
from fairlead_operator.workqueue import ItemBackoff

logger = logging.getLogger(__name__)

MAX_CONCURRENT: Final = 32
"""Number of servers that are probed concurrently."""
MIN_GAP_S: Final = 0.05
"""Minimum seconds between two probes of a server; its `spec.limits` may require more."""
LINGER_S: Final = 60.0
"""Seconds for which a session stays open until the next probe, because a stdio server starts a process per session."""
RECHECK_S: Final = 60.0
"""Longest pause in seconds before the due time is computed again. It may have changed in the meantime: when the
server's previous task is cancelled, its last probe is charged to the budget.
"""
TICK_S: Final = 0.01
"""Shortest pause in seconds. A timer of the event loop may fire slightly before its time on the monotonic clock; the
task would then loop until that time.
"""
SKIPPED_MESSAGE: Final = (
    "the connection was lost during the tool's last probe, so the tool is not probed again until the next round"
)


@dataclass(frozen=True)
class ProbeSet:
    """The probes of one server and their settings. A changed set restarts the server's task."""

    uid: str
    endpoint: Endpoint
    credential_hash: str
    """Hash of the credential's value."""
    revision: str
    """Revision of the workload; changes when the workload is replaced or restarts."""
    plan: ProbePlan
    samples: int
    """Number of probes per tool and round."""
    interval: float
    """Seconds between two rounds."""
    gap: float = MIN_GAP_S
    """Seconds between two probes."""


class ProbeObserver(Protocol):
    """Receives the measurements of probes. Methods are called in the event loop and must not raise."""

    def take_probe(self, server: ServerKey, tool: str, sample: Sample) -> None:
        """Receive the sample of one probe."""
        ...

    def take_probed_tools(self, server: ServerKey, tools: Collection[str]) -> None:
        """Receive the tools of the server that are probed even while tiers hide them."""
        ...

    def hidden_limits_ms(self, server: ServerKey) -> Mapping[str, float]:
        """Hidden tools that probes can bring back, each with the milliseconds within which a probe has to succeed."""
        ...

    def take_round_trip(self, server: ServerKey, milliseconds: float) -> None:
        """Receive the median of the server's last round trips without a tool call."""
        ...


@dataclass
class _Dependencies:
    """Dependencies and state that the tasks of all servers share."""

    connector: Connector
    observer: ProbeObserver
    on_condition_change: Callable[[ServerKey], None]
    on_outcome: Callable[[AttemptOutcome | None], None]
    monotonic: Callable[[], float]
    wall: Callable[[], float]
    rng: random.Random
    retry: ItemBackoff = field(default_factory=lambda: ItemBackoff(first=2.0, limit=120.0))
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CONCURRENT))
    """Limits the number of probes that run at the same time."""
    probes: int = 0
    """Number of completed probes, from which samples get their identifiers."""
    skipped_until: dict[tuple[ServerKey, PlannedProbe], float] = field(default_factory=dict)
    """Probes during which the connection was lost, each with the monotonic time until which it is skipped. Otherwise, a
    probe that crashes its server would crash it again after each restart.
    """
    budgets: dict[ServerKey, ProbeBudget] = field(default_factory=dict)

    def budget(self, key: ServerKey, probed: Collection[ServerKey]) -> ProbeBudget:
        """Budget of the server's probes, which outlives the server's task. Drops the budgets of servers that are not in
        `probed`, unless their probes have exceeded their share.
        """
        now = self.monotonic()
        settled = [server for server, budget in self.budgets.items() if server not in probed and budget.is_settled(now)]
        for server in settled:
            del self.budgets[server]
        return self.budgets.setdefault(key, ProbeBudget())

    def is_skipped(self, key: ServerKey, probe: PlannedProbe) -> bool:
        """Whether a probe is skipped now, because the connection was lost during its last run."""
        return self.skipped_until.get((key, probe), 0.0) > self.monotonic()

    def skip_for(self, key: ServerKey, probe: PlannedProbe, seconds: float) -> None:
        """Skip a probe for `seconds`."""
        now = self.monotonic()
        for past_key in [probe_key for probe_key, until in self.skipped_until.items() if until <= now]:
            del self.skipped_until[past_key]
        self.skipped_until[key, probe] = now + seconds


class Prober:
    """Runs the probes of all servers, one task per server.

    `on_condition_change(key)` is called when the server's condition Calibrated may have changed, `on_outcome` with the
    outcome of each probe (None if the probe did not measure its tool).
    """

    def __init__(
        self,
        connector: Connector,
        observer: ProbeObserver,
        on_condition_change: Callable[[ServerKey], None],
        *,
        on_outcome: Callable[[AttemptOutcome | None], None] = lambda outcome: None,
        clocks: Clocks | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`wall` returns seconds since the epoch, for the time of each sample."""
        clocks = clocks or Clocks()
        self._dependencies = _Dependencies(
            connector, observer, on_condition_change, on_outcome, clocks.monotonic, wall, clocks.rng
        )
        self._servers: dict[ServerKey, _ProbedServer] = {}

    def __repr__(self) -> str:
        return f"<Prober servers={len(self._servers)}>"

    def hold(self, key: ServerKey, probe_set: ProbeSet, credential: Credential | None) -> None:
        """Start probing a server; no-op if it is probed with an equal `probe_set`. Another set starts a new round."""
        current = self._servers.get(key)
        if current is not None and current.probe_set == probe_set:
            return
        self.drop(key)
        budget = self._dependencies.budget(key, self._servers)
        self._servers[key] = _ProbedServer(
            self._dependencies, key, probe_set, credential, budget, current.task if current else None
        )

    def drop(self, key: ServerKey) -> None:
        """Stop probing a server that is down or deleted."""
        server = self._servers.pop(key, None)
        if server is not None:
            server.close()

    def reschedule(self, key: ServerKey) -> None:
        """Recompute which probe is due, because a tool of the server has left a tier or returned to one."""
        server = self._servers.get(key)
        if server is not None:
            server.tiers_changed.set()

    def verdict(self, key: ServerKey) -> ConditionVerdict | None:
        """The verdict Calibrated of a server; None before its first round is complete."""
        server = self._servers.get(key)
        return server.schedule.verdict() if server is not None else None

    async def aclose(self) -> None:
        """End all probes and wait for their end."""
        tasks = [server.task for server in self._servers.values() if server.task is not None]
        for key in list(self._servers):
            self.drop(key)
        await asyncio.gather(*tasks, return_exceptions=True)


class _ProbedServer:
    """The probes of one server, in a task of its own."""

    def __init__(
        self,
        dependencies: _Dependencies,
        key: ServerKey,
        probe_set: ProbeSet,
        credential: Credential | None,
        budget: ProbeBudget,
        previous_task: asyncio.Task[None] | None,
    ) -> None:
        """`previous_task` of the server is awaited first, so that its last probe is in the budget."""
        self._mask = Mask(credential)
        self.probe_set = probe_set
        self.tiers_changed = asyncio.Event()
        self._dependencies = dependencies
        self._key = key
        jitter = 1 + 0.1 * (dependencies.rng.random() - 0.5)
        self._budget = budget
        self.schedule = ProbeSchedule(
            probe_set.plan,
            probe_set.interval * jitter,
            dependencies.monotonic(),
            samples=probe_set.samples,
            budget=self._budget,
        )
        self._reported_verdict: ConditionVerdict | None = None
        self._measured_tools: frozenset[str] | None = None
        self.task: asyncio.Task[None] | None = None
        if probe_set.plan.probes:
            self.task = asyncio.create_task(self._run(credential, previous_task), name=f"probes of {key}")

    def close(self) -> None:
        """Cancel the probes, and report that none of the server's hidden tools is probed any more."""
        if self.task is not None:
            self.task.cancel()
            self._dependencies.observer.take_probed_tools(self._key, ())

    async def _run(self, credential: Credential | None, previous_task: asyncio.Task[None] | None) -> None:
        """Run the due probes, over one session at a time, until cancelled; retry after failures."""
        if previous_task is not None:
            await asyncio.wait((previous_task,))
        failures = 0
        while True:
            while (delay := self._due_in()) > 0:
                await self._wait(delay)
            try:
                async with self._dependencies.connector.session(
                    self._key, self.probe_set.endpoint, credential
                ) as session:
                    await self._run_due_probes(session)
                failures = 0
                continue
            except McpError as error:
                logger.info("%s cannot be probed now and will be retried: %s", self._key, error)
            except Exception:
                logger.exception("the probes of %s failed unexpectedly and will be retried", self._key)
            failures += 1
            await asyncio.sleep(self._dependencies.retry.delay(failures, self._dependencies.rng))

    def _due_in(self) -> float:
        return self.schedule.due_in(
            self._dependencies.observer.hidden_limits_ms(self._key), self._dependencies.monotonic()
        )

    async def _wait(self, seconds: float) -> None:
        """Wait for `seconds`, at most `RECHECK_S`, or until a tool of the server has left a tier or returned."""
        try:
            async with asyncio.timeout(max(min(seconds, RECHECK_S), TICK_S)):
                await self.tiers_changed.wait()
        except TimeoutError:
            pass
        self.tiers_changed.clear()

    async def _run_due_probes(self, session: McpSession) -> None:
        """Run the probes that are due now or within `LINGER_S`. Raises McpError when the connection is lost."""
        while (delay := self._due_in()) <= LINGER_S:
            if delay > 0:
                await self._wait(delay)
                continue
            now = self._dependencies.monotonic()
            if (probe := self.schedule.next_in_round(now)) is not None:
                await self._probe_in_round(session, probe)
            elif (probe := self.schedule.next_hidden(now)) is not None:
                await self._probe_hidden(session, probe)

    async def _probe_in_round(self, session: McpSession, probe: PlannedProbe) -> None:
        """Run the next probe of the round, unless the connection was lost during its last run."""
        if self._dependencies.is_skipped(self._key, probe):
            result, skip_rest = ProbeResult(ProbeOutcome(None, problem=SKIPPED_MESSAGE)), True
        else:
            result = await self._probe(session, probe)
            skip_rest = result.connection_error is not None
        self.schedule.take_outcome(probe, result.outcome, self._dependencies.monotonic(), skip_rest=skip_rest)
        self._report_changes()
        if result.connection_error is not None:
            raise result.connection_error

    async def _probe_hidden(self, session: McpSession, probe: PlannedProbe) -> None:
        """Probe a tool that a tier hides, so that it can return to the tier."""
        limit_ms = self._dependencies.observer.hidden_limits_ms(self._key).get(probe.tool, 0.0)
        result = await self._probe(session, probe)
        self.schedule.take_hidden_outcome(probe, result.outcome, limit_ms, self._dependencies.monotonic())
        self._report_changes()
        if result.connection_error is not None:
            raise result.connection_error

    def _report_changes(self) -> None:
        """Report the measured tools and the verdict if they changed; report nothing before each tool was probed."""
        verdict = self.schedule.verdict()
        if verdict is None:
            return
        if self._measured_tools != self.schedule.measured_tools:
            self._measured_tools = self.schedule.measured_tools
            self._dependencies.observer.take_probed_tools(self._key, self._measured_tools)
        if self._reported_verdict != verdict:
            self._reported_verdict = verdict
            self._dependencies.on_condition_change(self._key)

    async def _probe(self, session: McpSession, probe: PlannedProbe) -> ProbeResult:
        """Measure one round trip without a tool call, then one call of the tool."""
        dependencies = self._dependencies
        await asyncio.sleep(self.probe_set.gap)
        async with Slot(dependencies.slots):
            try:
                self.schedule.take_round_trip(await round_trip(session, dependencies.monotonic))
            except McpError as error:
                dependencies.on_outcome(None)
                return ProbeResult(ProbeOutcome(None, problem=self._mask.text(str(error))), connection_error=error)
            began = dependencies.monotonic()
            self._budget.begin(probe.tool)
            try:
                result = await call(session, probe, dependencies.monotonic)
            finally:  # a cancelled probe counts against the budget too
                self._budget.spend(probe.tool, began, dependencies.monotonic() - began)
            masked_problem = self._mask.text(result.outcome.problem)
            result = replace(result, outcome=replace(result.outcome, problem=masked_problem))
        dependencies.probes += 1
        dependencies.on_outcome(result.sample)
        if result.sample is not None:
            sample = Sample(
                f"probe:{dependencies.probes}", dependencies.wall(), result.duration_ms, result.sample, probe=True
            )
            dependencies.observer.take_probe(self._key, probe.tool, sample)
        if self.schedule.round_trip_ms is not None:
            dependencies.observer.take_round_trip(self._key, self.schedule.round_trip_ms)
        if isinstance(result.connection_error, ConnectionLost):
            dependencies.skip_for(self._key, probe, self.probe_set.interval)
        return result
