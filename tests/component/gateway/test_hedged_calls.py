"""Calls that are also sent to a second pod if the first pod is slow to answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.documents.catalog import Catalog, DeclaredLatency
from fairlead_gateway.upstream.guard import RETRY_BUDGET, Guard, Timing
from fairlead_gateway.upstream.server_facts import AdmissionLimits
from gatewayworld import MODERN, ask, calling, catalog, entry, limits, running
from rawserver import Reply, Request, raw_server
from toolservers import answer_modern

IDEMPOTENT = entry("x", latency=DeclaredLatency(idempotent=True))


@dataclass
class Pods:
    """Two pods behind one name. The pod that is called first does not answer until `release` is set."""

    release: asyncio.Event = field(default_factory=asyncio.Event)
    calls: list[Request] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)
    broken: bool = False
    """Whether the first pod closes its connection without an answer after the second pod is called."""
    deaf: bool = False
    """Whether neither pod answers."""

    async def handle(self, request: Request, reply: Reply) -> None:
        self.calls.append(request)
        if len(self.calls) == 1 or self.deaf:
            await self.release.wait()
            if self.broken:
                reply.close()
                return
        elif self.broken:
            self.release.set()
            await asyncio.sleep(0)
        answer_modern(request, reply, [])

    async def resolve(self, host: str, port: int) -> list[tuple[str, int]]:
        return [("127.0.0.1", port) for port in self.ports]


@contextlib.asynccontextmanager
async def pods(**more: Any) -> AsyncIterator[Pods]:
    world = Pods(**more)
    async with raw_server(world.handle) as first, raw_server(world.handle) as second:
        world.ports = [first.port, second.port]
        yield world
        world.release.set()


def demo(tool: Any = IDEMPOTENT, **more: Any) -> Catalog:
    more = {"hedge_after_ms": 30, "retries": 0, **more}
    return catalog("demo", "http://demo.tools.svc/mcp", [tool], version=MODERN, limits=limits(**more))


async def test_a_slow_pod_is_overtaken_by_another(tmp_path: Path) -> None:
    async with pods() as world, running(tmp_path, demo(), resolve=world.resolve) as gateway:
        answer = await ask(gateway, calling("demo__x"))
        guard = next(iter(gateway.registry.guards.values()))
        assert not answer.message["result"].get("isError")
        assert len({request.message["id"] for request in world.calls}) == 2
        assert (guard.hedges, guard.hedges_won, guard.busy) == (1, 1, 0)


async def test_the_answer_of_the_other_counts_when_the_slow_pod_dies(tmp_path: Path) -> None:
    async with pods(broken=True) as world, running(tmp_path, demo(), resolve=world.resolve) as gateway:
        answer = await ask(gateway, calling("demo__x"))
    assert not answer.message["result"].get("isError")
    assert len(world.calls) == 2


@pytest.mark.parametrize(
    ("document", "arguments"),
    [
        (demo(entry("x")), {}),
        (demo(hedge_after_ms=None), {}),
        (demo(concurrency=1), {}),
        (demo(), {"progressToken": "p"}),
    ],
    ids=["not idempotent", "not asked for", "no room", "progress"],
)
async def test_a_call_is_sent_once(tmp_path: Path, document: Catalog, arguments: dict[str, Any]) -> None:
    async with pods() as world, running(tmp_path, document, resolve=world.resolve, call_timeout=0.3) as gateway:
        answer = await ask(gateway, calling("demo__x", {}, **arguments))
        assert answer.refusal == "TIMEOUT"
        assert len(world.calls) == 1


async def test_a_call_whose_time_is_up_is_given_up_at_both_pods(tmp_path: Path) -> None:
    async with pods(deaf=True) as world, running(tmp_path, demo(), resolve=world.resolve, call_timeout=0.3) as gateway:
        answer = await ask(gateway, calling("demo__x"))
        guard = next(iter(gateway.registry.guards.values()))
        assert answer.refusal == "TIMEOUT"
        assert (len(world.calls), guard.hedges, guard.hedges_won, guard.busy) == (2, 1, 0, 0)


def test_hedges_are_paid_from_the_budget_of_retries() -> None:
    guard = Guard("s", AdmissionLimits(1000), Timing(lambda delay, action: None))
    made = sum(guard.enter_hedge() for _ in range(100))
    assert made == RETRY_BUDGET
    for _ in range(made + 1):
        guard.leave_after_success()
    assert guard.enter_hedge()  # each finished call has added a tenth to the budget
    assert not guard.enter_hedge()
