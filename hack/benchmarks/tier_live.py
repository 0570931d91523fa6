"""The traces on a gateway and the operator's timekeeper and puller, with tools behind real HTTP, five times as fast.

All that is measured in milliseconds is a fifth (limits, durations, gaps between calls), and the timekeeper's clock runs
five times as fast. What the gateway and the puller wait for is not: a report that is told after a tenth of a second is
told after half a second of the trace. Nothing probes, so tools come back on trial. One policy runs after the other:
side by side they would wait for each other.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from bisect import bisect_right
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Final

import msgspec

from fairlead_api.documents.catalog import Catalog, DeclaredLatency
from fairlead_api.documents.rules import Rules, Tier
from fairlead_gateway.app import Gateway
from fairlead_operator.gateways.http import HttpGateways
from fairlead_operator.gateways.pull import Puller
from fairlead_operator.latency.ledger import Move
from fairlead_operator.latency.timekeeper import Timekeeper
from fairlead_operator.local.documents import DirectoryDocuments
from gatewayworld import Wire, calling, catalog, entry, modern, running
from harness import Report, Unmeasurable
from rawserver import Reply, Request, raw_server
from tier_replay import DECLARED, FAST, NO_TIERS, P50, P95, Policy
from traces import CALLS, LIMIT_MS, TRACES, Draw, Subject, Trace

SPEED: Final = 5
SEED: Final = 0
LIVE: Final = (
    "steady 0.6", "steady 0.8", "steady 0.9", "shift, one", "dead, one", "liar, one", "recovering, four", "spike, four",
    "drift, four", "bimodal, four",
)  # fmt: skip
INTERNAL_ERROR: Final = -32603


@dataclass
class Found:
    """What one policy made of a trace."""

    calls: int = 0
    late: int = 0
    """By the trace: the tool took longer than the limit."""
    waited: int = 0
    """The agent waited longer, the gateway's own time and the machine's noise included."""
    demote: float | None = None
    recover: float | None = None
    moves: int = 0


class Tools:
    """The server: each call names its place in the trace, which says how long it takes."""

    def __init__(self, subjects: list[Subject], draws: list[Draw]) -> None:
        self._durations = {subject.name: subject.duration for subject in subjects}
        self._draws = draws

    async def __call__(self, request: Request, reply: Reply) -> None:
        """Answer after the duration of the trace."""
        draw = self._draws[request.params["arguments"]["n"]]
        ms, answered = self._durations[request.params["name"]].draw(draw.at, draw.spread, draw.side)
        await asyncio.sleep(ms / 1000 / SPEED)
        if answered:
            reply.result(request, {"resultType": "complete", "content": []})
        else:
            reply.error(request, 200, INTERNAL_ERROR, "gone")


class Run:
    """One policy on one trace."""

    def __init__(self, trace: Trace, policy: Policy, calls: int = CALLS) -> None:
        """`calls`: the first of them."""
        self._trace = trace
        self._policy = policy
        self._subjects = trace.tools()
        self._draws = trace.draws(SEED, calls)
        self._begun = 0.0
        self._idle: list[Wire] = []
        self.found = Found()

    async def measure(self) -> Found:
        """All calls of the trace."""
        with tempfile.TemporaryDirectory() as folder:
            async with raw_server(Tools(self._subjects, self._draws)) as raw:
                shop = self._catalog(raw.url)
                async with running(Path(folder), shop, Rules(tiers=self._tiers())) as gateway:
                    self._begun = time.monotonic()
                    async with self._operator(Path(folder), shop, gateway), asyncio.TaskGroup() as calls:
                        for number, draw in enumerate(self._draws):
                            await asyncio.sleep(self._begun + draw.at / SPEED - time.monotonic())
                            calls.create_task(self._call(gateway, number, draw), name=f"call {number}")
                    for wire in self._idle:
                        wire.close()
        return self.found

    def _tiers(self) -> tuple[Tier, ...]:
        if not self._policy.declared:
            return (Tier(name=FAST, default=True),)
        return tuple(
            msgspec.structs.replace(tier, max_latency_ms=(tier.max_latency_ms or 0) // SPEED)
            for tier in self._policy.tiers()
        )

    def _catalog(self, url: str) -> Catalog:
        tools = [
            msgspec.structs.replace(
                entry(subject.name), latency=DeclaredLatency(estimated_duration_ms=subject.declared_ms // SPEED)
            )
            for subject in self._subjects
        ]
        return catalog("shop", url, tools)

    @contextlib.asynccontextmanager
    async def _operator(self, folder: Path, shop: Catalog, gateway: Gateway) -> AsyncIterator[None]:
        if self._policy.quantile is None:
            yield
            return
        documents = DirectoryDocuments(folder / "documents")
        timekeeper = Timekeeper(documents, self._moved, monotonic=lambda: time.monotonic() * SPEED)
        timekeeper.decide_by(self._tiers())
        timekeeper.know(shop)
        gateways = HttpGateways([f"http://127.0.0.1:{gateway.metrics_port}"])
        puller = Puller(gateways, timekeeper.take)
        tasks = [asyncio.create_task(part.run(), name=str(part)) for part in (puller, timekeeper)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await gateways.aclose()

    def _moved(self, move: Move) -> None:
        if not any(subject.misbehaves and subject.name == move.tool.name for subject in self._subjects):
            return
        if (FAST in move.before) is (FAST in move.after):
            return
        self.found.moves += 1
        at = (time.monotonic() - self._begun) * SPEED
        change, heal = self._trace.change, self._trace.heal
        if FAST in move.before and change is not None and at >= change and self.found.demote is None:
            self.found.demote = at - change
        if FAST in move.after and heal is not None and at >= heal and self.found.recover is None:
            self.found.recover = at - heal

    async def _call(self, gateway: Gateway, number: int, draw: Draw) -> None:
        wire = self._idle.pop() if self._idle else await Wire.connect(gateway)
        answer = await wire.ask(modern("tools/list"))
        listed = {tool["name"].removeprefix("shop__") for tool in answer.message["result"]["tools"]}
        seen = [subject for subject in self._subjects if subject.name in listed] or self._subjects
        sums = list(accumulate(subject.weight for subject in seen))
        subject = seen[min(len(seen) - 1, bisect_right(sums, draw.pick * sums[-1]))]
        begun = time.monotonic()
        await wire.ask(calling(f"shop__{subject.name}", {"n": number}))
        waited = (time.monotonic() - begun) * 1000 * SPEED
        self.found.calls += 1
        self.found.late += subject.duration.draw(draw.at, draw.spread, draw.side)[0] > LIMIT_MS
        self.found.waited += waited > LIMIT_MS
        self._idle.append(wire)


def live(report: Report) -> None:
    """Rows for one seed of each trace and policy. Raises Unmeasurable."""
    for name in LIVE:
        trace = TRACES[name]
        for policy in (NO_TIERS, DECLARED, P50, P95):
            found = asyncio.run(Run(trace, policy).measure())
            if found.calls != CALLS:
                raise Unmeasurable(f"{name}: {found.calls} calls were answered")
            report.rows.append({
                "trace": f"live: {name}",
                "policy": policy.name,
                "late calls": found.late,
                "in time %": f"{100 * (1 - found.late / found.calls):.2f}",
                "late per shift": f"{found.waited} as the agent waited",
                "demote s": found.demote,
                "recover s (slowest)": None if found.recover is None else f"{found.recover:.0f}",
                "moves": f"{found.moves / sum(subject.misbehaves for subject in trace.tools()):.2f}",
                "runs with a wrong hide %": None,
            })  # fmt: skip
    report.notes.append(
        f"live: real HTTP servers, gateway, puller and timekeeper, {SPEED} times as fast, one seed, no probes"
    )
