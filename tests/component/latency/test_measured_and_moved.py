"""From calls through a gateway to its list: durations are measured, judged by the operator, published and applied."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from custom_tools import of
from fairlead_api.documents.catalog import DeclaredLatency
from fairlead_api.documents.rules import Rules, Tier
from fairlead_api.reports import OK, Attempt, Report, ToolAttempts
from fairlead_app.gateway import Gateway
from fairlead_gateway import tool
from fairlead_operator.gateways.http import HttpGateways
from fairlead_operator.gateways.pull import Puller
from fairlead_operator.latency.ledger import Move
from fairlead_operator.latency.timekeeper import Timekeeper, TimekeeperObserver
from fairlead_operator.local.documents import DirectoryDocuments
from gatewayworld import LEGACY, MODERN, Wire, ask, calling, catalog, entry, modern, running
from rawserver import Reply, Request, raw_server
from waiting import until_async

TIERS = (Tier(name="fast", max_latency_ms=40, default=True), Tier(name="deep", max_latency_ms=4000))


@dataclass
class Slow:
    """A server whose tool takes `seconds`."""

    seconds: float = 0.0
    fails: bool = False

    async def __call__(self, request: Request, reply: Reply) -> None:
        await asyncio.sleep(self.seconds)  # the duration that is measured
        if self.fails:
            reply.error(request, 200, -32603, "broken")
        else:
            reply.result(request, {"resultType": "complete", "content": []})


@dataclass
class World:
    gateway: Gateway
    timekeeper: Timekeeper
    moves: list[Move] = field(default_factory=list)

    async def list_tools(self, target: str = "/mcp") -> list[str]:
        answer = await ask(self.gateway, modern("tools/list").to(target))
        return [tool["name"] for tool in answer.message["result"]["tools"]]

    async def until(self, *names: str) -> None:
        async def is_listed() -> bool:
            return await self.list_tools() == list(names)

        await until_async(f"the list of {names}", is_listed)


@contextlib.asynccontextmanager
async def world(
    folder: Path,
    server: Slow,
    token: str = "",
    latency: DeclaredLatency | None = None,
    tiers: tuple[Tier, ...] = TIERS,
) -> AsyncIterator[World]:
    """A gateway with one server, and the part of an operator that judges latencies."""
    async with raw_server(server) as raw:
        shop = catalog("shop", raw.url, [entry("knot", latency=latency)])
        async with running(folder, shop, Rules(tiers=tiers), pull_token=token) as gateway:
            moves: list[Move] = []
            timekeeper = Timekeeper(DirectoryDocuments(folder / "documents"), TimekeeperObserver(on_move=moves.append))
            await timekeeper.restore()
            timekeeper.use_tiers(tiers)
            timekeeper.take_catalog(shop)
            gateways = HttpGateways([f"http://127.0.0.1:{gateway.metrics_port}"], token)
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(Puller(gateways, timekeeper.take_report).run()),
                    group.create_task(timekeeper.run()),
                ]
                try:
                    yield World(gateway, timekeeper, moves)
                finally:
                    for task in tasks:
                        task.cancel()
            await gateways.aclose()


async def call(world: World, times: int, *, era: str = MODERN) -> None:
    async with await Wire.connect(world.gateway) as wire:
        for _ in range(times):
            await wire.ask(calling("shop__knot", era=era))


async def test_a_tool_that_turns_slow_leaves_its_tier_and_comes_back_by_itself(tmp_path: Path) -> None:
    server = Slow()
    async with world(tmp_path, server) as here:
        await call(here, 20)
        assert await here.list_tools() == ["shop__knot"]
        server.seconds = 0.06
        await call(here, 6)
        await here.until()
        assert await here.list_tools("/mcp/deep") == ["shop__knot"]
        server.seconds = 0.0
        async with await Wire.connect(here.gateway) as wire:
            for _ in range(31):
                await wire.ask(calling("shop__knot").to("/mcp/deep"))
        await here.until("shop__knot")
    assert [(move.tiers_before, move.tiers_after) for move in here.moves] == [
        (("fast", "deep"), ("deep",)),
        (("deep",), ("fast", "deep")),
    ]
    assert here.moves[0].sentence.startswith("knot left the fast tier: ")


async def test_a_custom_tool_is_measured_and_moved_though_no_operator_declares_it(tmp_path: Path) -> None:
    @tool
    async def ponder() -> None:
        await asyncio.sleep(0.06)  # the duration that is measured

    async with running(tmp_path, Rules(tiers=TIERS), custom=of(ponder)) as gateway:
        timekeeper = Timekeeper(DirectoryDocuments(tmp_path / "documents"))
        timekeeper.use_tiers(TIERS)
        timekeeper.forget(())
        gateways = HttpGateways([f"http://127.0.0.1:{gateway.metrics_port}"], "")
        here = World(gateway, timekeeper)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(Puller(gateways, timekeeper.take_report).run()),
                group.create_task(timekeeper.run()),
            ]
            await here.until("ponder")
            for _ in range(6):
                await ask(gateway, calling("ponder"))
            await here.until()
            timekeeper.forget(())
            await here.until()
            assert await here.list_tools("/mcp/deep") == ["ponder"]
            for task in tasks:
                task.cancel()
        await gateways.aclose()


async def test_a_call_that_still_runs_counts_as_soon_as_it_is_late(tmp_path: Path) -> None:
    server = Slow(seconds=30.0)
    async with world(tmp_path, server) as here:
        wires = [await Wire.connect(here.gateway) for _ in range(6)]
        for wire in wires:
            wire.send(calling("shop__knot"))
        await here.until()
        for wire in wires:
            wire.close()


async def test_calls_of_legacy_clients_are_measured_like_all_others(tmp_path: Path) -> None:
    async with world(tmp_path, Slow(seconds=0.06)) as here:
        await call(here, 6, era=LEGACY)
        await here.until()


async def test_errors_degrade_a_tool_and_say_nothing_of_its_speed(tmp_path: Path) -> None:
    tiers = (Tier(name="fast", max_latency_ms=2000, default=True), TIERS[1])  # a running call that is late also counts
    async with world(tmp_path, Slow(fails=True), tiers=tiers) as here:
        await call(here, 5)
        await here.until()
        (state,) = here.gateway.snapshot.states.values()
    assert state["knot"].quantiles is None
    assert state["knot"].health.state == "Degraded"
    assert state["knot"].hidden["fast"].startswith("degraded score=0 ")


async def test_latencies_are_told_to_the_bearer_of_the_token(tmp_path: Path) -> None:
    async with world(tmp_path, Slow(seconds=0.06), token="secret") as here:
        await call(here, 6)
        await here.until()


async def test_a_wrong_token_is_refused_and_calls_go_on(tmp_path: Path) -> None:
    async with running(tmp_path, pull_token="secret") as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.metrics_port)
        writer.write(b"GET /samples HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer guess\r\n\r\n")
        answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"FAIRLEAD_PULL_TOKEN" in answer


async def test_calls_past_their_declared_maximum_are_cut_off_and_degrade_the_tool_until_it_answers_again(
    tmp_path: Path,
) -> None:
    server = Slow(seconds=30.0)
    tiers = (Tier(name="fast", max_latency_ms=2000, default=True), TIERS[1])
    async with world(tmp_path, server, latency=DeclaredLatency(max_duration_ms=30), tiers=tiers) as here:
        async with await Wire.connect(here.gateway) as wire:
            answers = [await wire.ask(calling("shop__knot")) for _ in range(4)]
        codes = [answer.message["result"]["_meta"]["fairlead.dev/error"]["code"] for answer in answers]
        assert codes == ["TIMEOUT"] * 4, "far within the limit of its tier: it is its health that hides it"
        await here.until()
        assert await here.list_tools("/mcp/deep") == ["shop__knot"]
        (state,) = here.gateway.snapshot.states.values()
        assert state["knot"].hidden["fast"].startswith("degraded score=0 failures=4/4 tier=deep ")
        server.seconds = 0.0
        async with await Wire.connect(here.gateway) as wire:
            for _ in range(31):
                await wire.ask(calling("shop__knot").to("/mcp/deep"))
        await here.until("shop__knot")


async def test_early_reports_of_gateways_are_judged_by_the_published_tiers(
    tmp_path: Path,
) -> None:
    server = Slow(seconds=0.06)
    async with world(tmp_path, server) as here:
        await call(here, 6)
        await here.until()
        ((before,),) = (states.values() for states in here.gateway.snapshot.states.values())
    shop = catalog("shop", "http://127.0.0.1:1/mcp", [entry("knot")])
    again = Timekeeper(DirectoryDocuments(tmp_path / "documents"))
    await again.restore()
    again.take_catalog(shop)
    heard = ToolAttempts("default", "shop", "knot", (Attempt(1, 0.0, 5.0, OK),))
    again.take_report(Report(replica="r", cursor="r.1.0", environment="cluster", tools=(heard,)))
    again.use_tiers(TIERS)
    await again.round()
    (state,) = again.ledger.states(shop.key, 0.0)
    assert state.tiers == before.tiers == ("deep",)
    assert before.quantiles is not None
    assert state.quantiles is not None
    assert state.quantiles.samples == before.quantiles.samples + 1
