"""The traces in real time on the shipped product: what `tiers.world` serves, and an agent that calls what it sees.

Nothing is sped up: 2,000 calls at five a second take 400 seconds. Several runs wait side by side, because waiting is
nearly all that they do; each has its own servers, and its own `fairlead up` where measurements count.

What moved is seen from outside, in the lists: the agent's before each call, and those of every tier once a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Final

from gatewayworld import Wire, calling, modern
from rig.harness import Cell, Unmeasurable
from tiers.replay import DECLARED, FAST, NO_TIERS, P50, P95, Outcomes, Policy
from tiers.traces import CALLS, LIMIT_MS, MAX_LATE, TRACES, Draw, Subject, Trace
from tiers.world import STARTUP_S, Served, served

SEED: Final = 0
POLICIES: Final = (NO_TIERS, DECLARED, P50, P95)
AT_ONCE: Final = 6
"""Maximum number of traces, each with every policy, that run at the same time."""
STARTS_AT_ONCE: Final = 2
IDLE_S: Final = 20.0
LOOK_S: Final = 1.0
"""Seconds between two requests of the lists of all tiers."""
TRACES_LIVE: Final = tuple(name for name in TRACES if not name.startswith("grey"))


class Beside:
    """Runs that share a machine. They start one after the other, but begin their traces together."""

    def __init__(self, runs: int) -> None:
        self.starts = asyncio.Semaphore(STARTS_AT_ONCE)
        self.begin = asyncio.Barrier(runs)


@dataclass
class Found(Outcomes):
    """Results of the shipped product on a trace under one policy. Lateness is measured by the agent's waiting time."""

    late_by_trace: int = 0
    """Calls whose tool alone took longer than the limit, without the gateway and the machine's other work."""
    unanswered: int = 0
    """Calls without any answer; must be 0 for a valid run."""
    tier_moves: dict[str, int] = field(default_factory=dict)
    """Number of times that a misbehaving tool left or re-entered each tier."""
    tier_wrong: dict[str, int] = field(default_factory=dict)
    """Number of times that each tier hid a tool that fitted it at that moment."""


class Run:
    """One policy on one trace."""

    def __init__(self, trace: Trace, policy: Policy, calls: int = CALLS, beside: Beside | None = None) -> None:
        """`calls` are the draws of all calls. `beside` are the runs that begin their traces at the same time."""
        self._trace = trace
        self._policy = policy
        self._subjects = trace.tools()
        self._draws = trace.draws(SEED, calls)
        self._begun: float | None = None
        self._beside = beside or Beside(1)
        self._idle: list[tuple[float, Wire]] = []
        self._lists: dict[str, set[str]] = {}
        self._open = {subject.name for subject in self._subjects if subject.misbehaves}
        self._ill = set[str]()
        self.figures = Found(subjects=len(self._open))

    async def measure(self) -> Found:
        """Make all calls of the trace, after all tools are listed."""
        with tempfile.TemporaryDirectory() as folder:
            async with contextlib.AsyncExitStack() as stack:
                world = served(Path(folder), self._subjects, self._draws, self._policy, self._now)
                async with self._beside.starts:
                    where = await stack.enter_async_context(world)
                await self._all_listed(where)
                await self._beside.begin.wait()
                self._begun = time.monotonic()
                async with self._watched(where), asyncio.TaskGroup() as calls:
                    for number, draw in enumerate(self._draws):
                        await asyncio.sleep(draw.at - self._now())
                        calls.create_task(self._call(where, number, draw), name=f"call {number}")
                for _, wire in self._idle:
                    wire.close()
        return self.figures

    def _now(self) -> float:
        """Seconds since the beginning of the trace; 0 before it."""
        return 0.0 if self._begun is None else time.monotonic() - self._begun

    async def _all_listed(self, where: Served) -> None:
        wanted = {subject.name for subject in self._subjects}
        try:
            async with asyncio.timeout(STARTUP_S), await Wire.connect(where) as wire:
                while await _listed(wire) != wanted:  # noqa: ASYNC110  # the list is what an agent goes by
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise Unmeasurable(f"{self._trace.name}: the tools were not listed within {STARTUP_S:g} s") from None
        self._lists = {tier.name: set(wanted) for tier in self._policy.tiers()}

    @contextlib.asynccontextmanager
    async def _watched(self, where: Served) -> AsyncIterator[None]:
        """Observe the lists of all tiers within the context."""
        if self._policy.quantile is None:
            yield
            return
        task = asyncio.create_task(self._watch(where), name=f"lists of {self._trace.name}")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _watch(self, where: Served) -> None:
        async with await Wire.connect(where) as wire:
            while True:
                for tier in self._lists:
                    self._saw(tier, await _listed(wire, f"/mcp/{tier}"))
                await asyncio.sleep(LOOK_S)

    async def _call(self, where: Served, number: int, draw: Draw) -> None:
        wire = await self._wire(where)
        listed = await _listed(wire)
        if self._policy.quantile is not None:
            self._saw(FAST, listed)
        seen = [subject for subject in self._subjects if subject.name in listed] or self._subjects
        sums = list(accumulate(subject.weight for subject in seen))
        subject = seen[min(len(seen) - 1, bisect_right(sums, draw.pick * sums[-1]))]
        server = "ill" if subject.misbehaves else "well"
        begun = time.monotonic()
        answer = await wire.ask(calling(f"{server}__{subject.name}", {"n": number}))
        waited = (time.monotonic() - begun) * 1000
        self.figures.unanswered += "result" not in answer.message
        self._count(subject, draw, waited)
        self._idle.append((time.monotonic(), wire))

    async def _wire(self, where: Served) -> Wire:
        """A recently used connection, which the gateway has not closed for idleness."""
        while self._idle:
            since, wire = self._idle.pop()
            if time.monotonic() - since < IDLE_S:
                return wire
            wire.close()
        return await Wire.connect(where)

    def _count(self, subject: Subject, draw: Draw, waited: float) -> None:
        figures, late = self.figures, waited > LIMIT_MS
        figures.calls += 1
        figures.late += late
        figures.late_by_trace += subject.duration.draw(draw.at, draw.spread, draw.side)[0] > LIMIT_MS
        if subject.misbehaves:
            figures.timeline.append((draw.at, waited, late))
            change, heal = self._trace.change, self._trace.heal
            ill = change is not None and change <= draw.at and (heal is None or draw.at < heal)
            figures.late_while_bad += late and ill

    def _saw(self, tier: str, listed: Collection[str]) -> None:
        """Record a list: which tools left or re-entered it since the last one."""
        tools = self._lists[tier]
        for subject in self._subjects:
            hidden = subject.name not in listed
            if hidden is (subject.name in tools):
                tools.symmetric_difference_update({subject.name})
                self._moved(tier, subject, hidden=hidden)

    def _moved(self, tier: str, subject: Subject, *, hidden: bool) -> None:
        figures, now, trace = self.figures, self._now(), self._trace
        limit = next(each.max_latency_ms or float("inf") for each in self._policy.tiers() if each.name == tier)
        if hidden and subject.duration.late(now, limit) <= MAX_LATE:
            figures.tier_wrong[tier] = figures.tier_wrong.get(tier, 0) + 1
            figures.wrong_hides += tier == FAST
        if not subject.misbehaves:
            return
        figures.tier_moves[tier] = figures.tier_moves.get(tier, 0) + 1
        if tier != FAST:
            return
        figures.moves += 1
        figures.hidden.append((now, subject.name, hidden))
        if hidden and subject.name in self._open and trace.change is not None and now >= trace.change:
            self._open.discard(subject.name)
            self._ill.add(subject.name)
            figures.demote.append(now - trace.change)
        elif not hidden and subject.name in self._ill and trace.heal is not None and now >= trace.heal:
            self._ill.discard(subject.name)
            figures.recover.append(now - trace.heal)


async def _listed(wire: Wire, target: str = "/mcp") -> set[str]:
    answer = await wire.ask(modern("tools/list").to(target))
    return {tool["name"].partition("__")[2] for tool in answer.message["result"]["tools"]}


async def _side_by_side(names: Sequence[str], calls: int) -> dict[tuple[str, str], Found]:
    beside = Beside(len(names) * len(POLICIES))
    async with asyncio.TaskGroup() as group:
        tasks = {
            (name, policy.name): group.create_task(Run(TRACES[name], policy, calls, beside).measure(), name=name)
            for name in names
            for policy in POLICIES
        }
    return {key: task.result() for key, task in tasks.items()}


def measured(names: Sequence[str] = TRACES_LIVE, calls: int = CALLS) -> Iterator[tuple[str, str, Found]]:
    """Trace, policy and results. Raises Unmeasurable."""
    for begin in range(0, len(names), AT_ONCE):
        for (name, policy), figures in asyncio.run(_side_by_side(names[begin : begin + AT_ONCE], calls)).items():
            if figures.calls != calls or figures.unanswered:
                raise Unmeasurable(f"{name}, {policy}: {figures.calls} calls, {figures.unanswered} without a result")
            yield name, policy, figures


def columns(figures: Found) -> dict[str, Cell]:
    """Columns that a live run has in addition to those of a replay."""
    return {
        "late by the tools": figures.late_by_trace,
        "moves per tier": _per_tier(figures.tier_moves),
        "wrong hides per tier": _per_tier(figures.tier_wrong),
    }


def _per_tier(counts: dict[str, int]) -> str | None:
    return ", ".join(f"{tier} {count}" for tier, count in sorted(counts.items())) or None
