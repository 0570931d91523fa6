"""An agent that fills the queue of work with searches, or opens all streams it can, leaves other agents their share."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path

import pytest

from fairlead_app.authentication import Trust
from fairlead_app.gateway import Gateway
from fairlead_offers.workers.heavy_work import MAX_WAITING, THREAD_SLOTS
from fairlead_rest.resources import calls, events
from gatewayworld import Answer, Ask, Wire, catalog, running
from policyworld import Vouching, anybody
from restworld import get, problem
from waiting import eventually

TRUST = Trust((Vouching(anybody("mallory"), anybody("alice")),))
DEMO = catalog("demo", "http://127.0.0.1:9/mcp", ["add"])


def send(gateway: Gateway, who: str, target: str = "/v1/tiers") -> asyncio.Task[Answer]:
    return asyncio.create_task(get(gateway, target, authorization=f"Bearer {who}"))


async def test_an_agent_that_fills_the_queue_of_work_is_refused_and_others_are_not(tmp_path: Path) -> None:
    held, begun = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        held.wait()

    async with running(tmp_path, DEMO, trust=TRUST) as gateway:
        worker, turns = gateway.rest.services.work.worker, gateway.rest.services.work.worker._turns
        try:
            holding = [asyncio.create_task(worker.do(hold)) for _ in range(THREAD_SLOTS)]
            await asyncio.to_thread(begun.wait)
            crowd = [send(gateway, "mallory") for _ in range(MAX_WAITING + 8)]
            await eventually(lambda: turns.waiting == MAX_WAITING and sum(task.done() for task in crowd) == 8)
            assert {problem(task.result()) for task in crowd if task.done()} == {(429, "RATE_LIMITED")}
            alice = [send(gateway, "alice") for _ in range(3)]
            await eventually(lambda: sum(task.done() for task in crowd) == 11)
        finally:
            held.set()
        assert [answer.status for answer in await asyncio.gather(*alice)] == [200] * 3
        statuses = sorted(answer.status for answer in await asyncio.gather(*crowd))
        assert statuses == [200] * (MAX_WAITING - 3) + [429] * 11
        outcomes = gateway.call_metrics.shares.outcomes
        assert (outcomes["work", "agent"], outcomes["work", "gave_way"]) == (8, 3)
        await asyncio.gather(*holding)


@pytest.mark.parametrize("target", ["/v1/events", "/v1/calls/events"])
async def test_event_streams_of_one_agent_take_its_share_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    for module in (events, calls):
        monkeypatch.setattr(module, "MAX_READERS", 8)
    async with running(tmp_path, DEMO, trust=TRUST) as gateway, contextlib.AsyncExitStack() as stack:

        async def open_stream(who: str) -> int:
            wire = await stack.enter_async_context(await Wire.connect(gateway))
            wire.send(Ask(verb="GET", target=target, body=b"", headers={"authorization": f"Bearer {who}"}))
            return int((await wire.reader.readuntil(b"\r\n\r\n")).split(b" ")[1])

        assert [await open_stream("mallory") for _ in range(4)] == [200, 200, 429, 429]
        assert [await open_stream("alice") for _ in range(2)] == [200, 200]
        assert gateway.call_metrics.shares.outcomes["event_streams", "agent"] == 2
