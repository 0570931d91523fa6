"""Probes servers: one task per server, one call at a time, over a session of its own that it closes when it rests.

Held by the reconciler for the leader, as listeners and lines are. Discoveries never wait for it. What it hears goes to
a `Judge` (the timekeeper); when each tool is due stands in `schedule`.
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
from fairlead_operator.calibration.call import ProbeAnswer, call, round_trip
from fairlead_operator.calibration.plan import PlannedProbe, ProbePlan
from fairlead_operator.calibration.schedule import ProbeOutcome, ProbeSchedule
from fairlead_operator.clocks import Clocks
from fairlead_operator.discovery.request_slots import Slot
from fairlead_operator.latency.samples import AttemptOutcome, Sample
from fairlead_operator.ports import ConditionVerdict, Connector
from fairlead_operator.workqueue import ItemBackoff

logger = logging.getLogger(__name__)

AT_ONCE: Final = 32
"""Servers that are probed side by side."""
APART_S: Final = 0.05
"""Between two probes of a server; its `callsPerMinute` may make it more."""
LINGER_S: Final = 60.0
"""A session stays open for what is due within this time: a server on stdio would start a process for each."""
LOOK_S: Final = 60.0
"""Longest rest: a probe of a task that was ended may have its time accounted for meanwhile."""
TICK_S: Final = 0.01
"""Shortest rest: clocks and timers may differ by less."""
SPARED: Final = "the connection was lost under its last probe, so it is left alone for a while"


@dataclass(frozen=True)
class ProbeSet:
    """Probes of one server and their settings; while it stays equal, the server's task goes on."""

    uid: str
    endpoint: Endpoint
    credential_hash: str
    revision: str
    plan: ProbePlan
    samples: int
    """Probes per tool and round."""
    interval: float
    """Seconds between two rounds."""
    apart: float = APART_S
    """Seconds between two probes."""


class Judge(Protocol):
    """Who is told what probes measured. Called in the loop, may not raise."""

    def take_probe(self, server: ServerKey, tool: str, sample: Sample) -> None:
        """One probe that says something about a tool."""
        ...

    def watches(self, server: ServerKey, tools: Collection[str]) -> None:
        """From now on probes reach these tools of the server while they are hidden, and no others."""
        ...

    def awaiting(self, server: ServerKey) -> Mapping[str, float]:
        """Tools that a tier hides: the milliseconds within which a probe speaks for them."""
        ...

    def take_round_trip(self, server: ServerKey, milliseconds: float) -> None:
        """The median of the last round trips to the server that called no tool."""
        ...


@dataclass
class _Dependencies:
    """Dependencies that the tasks of all servers share."""

    connector: Connector
    judge: Judge
    finished: Callable[[ServerKey], None]
    told: Callable[[AttemptOutcome | None], None]
    monotonic: Callable[[], float]
    wall: Callable[[], float]
    rng: random.Random
    retry: ItemBackoff = field(default_factory=lambda: ItemBackoff(first=2.0, limit=120.0))
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    probes: int = 0
    spared: dict[tuple[ServerKey, PlannedProbe], float] = field(default_factory=dict)
    """Probes under which a connection was lost, and until when they are not made: what brought its server down would
    otherwise do so again with each new start."""
    accounts: dict[ServerKey, ProbeBudget] = field(default_factory=dict)

    def account(self, key: ServerKey, held: Collection[ServerKey]) -> ProbeBudget:
        """Time that probes took of the server's tools before. Forgets servers that are not `held` once it is due."""
        now = self.monotonic()
        for gone in [
            server for server, budget in self.accounts.items() if server not in held and budget.is_settled(now)
        ]:
            del self.accounts[gone]
        return self.accounts.setdefault(key, ProbeBudget())

    def spares(self, key: ServerKey, probe: PlannedProbe) -> bool:
        return self.spared.get((key, probe), 0.0) > self.monotonic()

    def spare(self, key: ServerKey, probe: PlannedProbe, seconds: float) -> None:
        now = self.monotonic()
        for past in [tool for tool, until in self.spared.items() if until <= now]:
            del self.spared[past]
        self.spared[key, probe] = now + seconds


class Prober:
    """Runs the probes of all servers, one task per server. `finished(key)` is called when a condition may have changed,
    `told` with each probe's result.
    """

    def __init__(
        self,
        connector: Connector,
        judge: Judge,
        finished: Callable[[ServerKey], None],
        *,
        told: Callable[[AttemptOutcome | None], None] = lambda outcome: None,
        clocks: Clocks | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`wall`: seconds since the epoch, which samples are dated by."""
        clocks = clocks or Clocks()
        self._means = _Dependencies(connector, judge, finished, told, clocks.monotonic, wall, clocks.rng)
        self._held: dict[ServerKey, _Server] = {}

    def __repr__(self) -> str:
        return f"<Prober servers={len(self._held)}>"

    def hold(self, key: ServerKey, bench: ProbeSet, credential: Credential | None) -> None:
        """Probe the server from now on; no-op where that is done already. Another bench begins with a round."""
        held = self._held.get(key)
        if held is not None and held.bench == bench:
            return
        self.drop(key)
        account = self._means.account(key, self._held)
        self._held[key] = _Server(self._means, key, bench, credential, account, held.task if held else None)

    def drop(self, key: ServerKey) -> None:
        """Probe it no more: it is down, or gone."""
        held = self._held.pop(key, None)
        if held is not None:
            held.close()

    def look_again(self, key: ServerKey) -> None:
        """A tool of the server has left a tier or come back."""
        held = self._held.get(key)
        if held is not None:
            held.stirred.set()

    def verdict(self, key: ServerKey) -> ConditionVerdict | None:
        """The server's condition; None while nothing new is known."""
        held = self._held.get(key)
        return held.course.verdict() if held is not None else None

    async def aclose(self) -> None:
        """End all probes and wait for their end."""
        tasks = [held.task for held in self._held.values() if held.task is not None]
        for key in list(self._held):
            self.drop(key)
        await asyncio.gather(*tasks, return_exceptions=True)


class _Server:
    """The probes of one server."""

    def __init__(
        self,
        means: _Dependencies,
        key: ServerKey,
        bench: ProbeSet,
        credential: Credential | None,
        account: ProbeBudget,
        before: asyncio.Task[None] | None,
    ) -> None:
        """`before`: the task that this one replaces; its last probe has to be accounted for."""
        self._mask = Mask(credential)
        self.bench = bench
        self.stirred = asyncio.Event()
        self._means = means
        self._key = key
        jitter = 1 + 0.1 * (means.rng.random() - 0.5)
        self._account = account
        self.course = ProbeSchedule(
            bench.plan,
            bench.interval * jitter,
            means.monotonic(),
            samples=bench.samples,
            account=self._account,
        )
        self._told: ConditionVerdict | None = None
        self._measured: frozenset[str] | None = None
        self.task: asyncio.Task[None] | None = None
        if bench.plan.probes:
            self.task = asyncio.create_task(self._keep(credential, before), name=f"probes of {key}")

    def close(self) -> None:
        """End them; hidden tools come back on trial from now on."""
        if self.task is not None:
            self.task.cancel()
            self._means.judge.watches(self._key, ())

    async def _keep(self, credential: Credential | None, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait((before,))
        failures = 0
        while True:
            while (wait := self._due_in()) > 0:
                await self._rest(wait)
            try:
                opened = self._means.connector.session(self._key, self.bench.endpoint, credential)
                async with opened as session:
                    await self._sit(session)
                failures = 0
                continue
            except McpError as error:
                logger.info("%s cannot be probed now: %s", self._key, error)
            except Exception:
                logger.exception("the probes of %s broke down", self._key)
            failures += 1
            await asyncio.sleep(self._means.retry.delay(failures, self._means.rng))

    def _due_in(self) -> float:
        return self.course.due_in(self._means.judge.awaiting(self._key), self._means.monotonic())

    async def _rest(self, seconds: float) -> None:
        """Until something is due, or a tool has moved; at most until it is time to look again."""
        try:
            async with asyncio.timeout(max(min(seconds, LOOK_S), TICK_S)):
                await self.stirred.wait()
        except TimeoutError:
            pass
        self.stirred.clear()

    async def _sit(self, session: McpSession) -> None:
        """Probe what is due now or soon. Raises McpError where the connection is gone."""
        while (wait := self._due_in()) <= LINGER_S:
            if wait > 0:
                await self._rest(wait)
                continue
            now = self._means.monotonic()
            if (probe := self.course.in_round(now)) is not None:
                await self._round(session, probe)
            elif (probe := self.course.next_hidden(now)) is not None:
                await self._watch(session, probe)

    async def _round(self, session: McpSession, probe: PlannedProbe) -> None:
        """The next probe of the round."""
        if self._means.spares(self._key, probe):
            done, last = ProbeAnswer(ProbeOutcome(None, words=SPARED)), True
        else:
            done = await self._probe(session, probe)
            last = done.lost is not None
        self.course.take_answer(probe, done.answer, self._means.monotonic(), last=last)
        self._tell()
        if done.lost is not None:
            raise done.lost

    async def _watch(self, session: McpSession, probe: PlannedProbe) -> None:
        """A tool that is hidden."""
        limit_ms = self._means.judge.awaiting(self._key).get(probe.tool, 0.0)
        done = await self._probe(session, probe)
        self.course.take_hidden_answer(probe, done.answer, limit_ms, self._means.monotonic())
        self._tell()
        if done.lost is not None:
            raise done.lost

    def _tell(self) -> None:
        """Which tools probes say something of, and the condition, once each tool was probed and if they changed."""
        verdict = self.course.verdict()
        if verdict is None:
            return
        if self._measured != self.course.measured:
            self._measured = self.course.measured
            self._means.judge.watches(self._key, self._measured)
        if self._told != verdict:
            self._told = verdict
            self._means.finished(self._key)

    async def _probe(self, session: McpSession, probe: PlannedProbe) -> ProbeAnswer:
        """One baseline round trip and one call."""
        means = self._means
        await asyncio.sleep(self.bench.apart)
        async with Slot(means.slots):
            try:
                self.course.take_round_trip(await round_trip(session, means.monotonic))
            except McpError as error:
                means.told(None)
                return ProbeAnswer(ProbeOutcome(None, words=self._mask.text(str(error))), lost=error)
            began = means.monotonic()
            self._account.begin(probe.tool)
            try:
                done = await call(session, probe, means.monotonic)
            finally:  # a probe that is cut off has cost its tool as much
                self._account.spend(probe.tool, began, means.monotonic() - began)
            done = replace(done, answer=replace(done.answer, words=self._mask.text(done.answer.words)))
        means.probes += 1
        means.told(done.sample)
        if done.sample is not None:
            sample = Sample(f"probe:{means.probes}", means.wall(), done.duration_ms, done.sample, probe=True)
            means.judge.take_probe(self._key, probe.tool, sample)
        if self.course.round_trip_ms is not None:
            means.judge.take_round_trip(self._key, self.course.round_trip_ms)
        if isinstance(done.lost, ConnectionLost):
            means.spare(self._key, probe, self.bench.interval)
        return done
