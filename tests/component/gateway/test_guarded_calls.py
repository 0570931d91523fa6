"""Circuit breaker, queue, rate limit and retries of a server, none of which servers share."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.documents.catalog import DeclaredLatency
from fairlead_api.documents.rules import Rules, Tier
from fairlead_app.gateway import Gateway
from gatewayworld import (
    LEGACY,
    MODERN,
    Answer,
    Wire,
    ask,
    calling,
    catalog,
    entry,
    limits,
    modern,
    running,
    scrape,
    wait_for_requests,
)
from ports import free_port
from rawserver import Reply, Request, raw_server
from restworld import get, post
from toolservers import answer_handshake, answer_modern, broken_server, modern_server
from waiting import eventually, until_async

ERAS = (MODERN, LEGACY)
ERROR = "fairlead.dev/error"


async def breaker(gateway: Gateway) -> str:
    return str((await get(gateway, "/v1/servers")).message["servers"][0]["breaker"])


def has_worked(answer: Answer) -> bool:
    result = answer.message["result"]
    return not result.get("isError", False)


async def test_a_breaker_opens_is_shown_and_closes_by_a_trial(tmp_path: Path) -> None:
    port = free_port()
    demo = catalog("demo", f"http://127.0.0.1:{port}/mcp", ["x"], limits=limits(retries=0))
    async with running(tmp_path, demo) as gateway:
        assert await breaker(gateway) == "closed"
        codes = [(await ask(gateway, calling("demo__x"))).refusal for _ in range(6)]
        assert codes == ["CONNECTION_LOST"] * 5 + ["BREAKER_OPEN"]
        refused = (await ask(gateway, calling("demo__x"))).message["result"]["_meta"][ERROR]
        assert 0 < refused["retryAfterMs"] <= 1000
        assert await breaker(gateway) == "open"
        seen = await scrape(gateway)
        assert 'fairlead_breaker_state{fairlead_server="default/demo"} 2.0' in seen
        assert 'fairlead_breaker_opened_total{fairlead_server="default/demo"} 1.0' in seen
        assert (await ask(gateway, modern("tools/list"))).message["result"]["tools"]

        async def handle(request: Request, reply: Reply) -> None:
            answer_modern(request, reply, [])

        async def works() -> bool:
            return has_worked(await ask(gateway, calling("demo__x")))

        async with raw_server(handle, port):
            await until_async("a call that works", works, seconds=30)
            assert await breaker(gateway) == "closed"


async def test_errors_of_tools_and_of_servers_that_answer_open_no_breaker(tmp_path: Path) -> None:
    async with broken_server("500") as server, running(tmp_path, catalog("demo", server.url, ["x"])) as gateway:
        for _ in range(12):
            assert (await ask(gateway, calling("demo__x"))).refusal == "UPSTREAM_ERROR"
        assert await breaker(gateway) == "closed"


async def test_a_caller_with_little_time_speaks_against_neither_server_nor_tool(tmp_path: Path) -> None:
    async with broken_server("never") as server, running(tmp_path, catalog("demo", server.url, ["x"])) as gateway:
        call = {"id": "1", "type": "function", "function": {"name": "demo__x", "arguments": "{}"}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        for _ in range(8):
            body = {"format": "openai", "message": message, "timeoutMs": 1}
            assert (await post(gateway, "/v1/tool-calls", body)).message["calls"][0]["code"] == "TIMEOUT"
        assert await breaker(gateway) == "closed"
        seen = gateway.outbox.samples.since(0, gateway.endpoint.clock(), 0.0)
        assert {attempt.outcome for _, attempts in seen for attempt in attempts} <= {"neutral"}


SLOW = entry("slow", latency=DeclaredLatency(max_duration_ms=100))
LANES: tuple[dict[str, Any], ...] = ({}, {"progressToken": "p"})


async def _answers_all_but_slow(request: Request, reply: Reply) -> None:
    if request.params.get("name") == "slow":
        await asyncio.Event().wait()
    elif request.message["method"] in ("ping", "server/discover"):
        reply.result(request, {})
    elif not answer_handshake(request, reply):
        reply.result(request, {"resultType": "complete", "content": []})


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("more", LANES)
async def test_a_tool_that_overruns_its_maximum_does_not_open_the_breaker_for_others(
    tmp_path: Path, more: dict[str, Any], era: str
) -> None:
    async with raw_server(_answers_all_but_slow) as server:
        demo = catalog("demo", server.url, [SLOW, "x"], version=era)
        async with running(tmp_path, demo) as gateway:
            answers = [await ask(gateway, calling("demo__slow", {}, **more)) for _ in range(12)]
            assert {answer.refusal for answer in answers} == {"TIMEOUT"}
            told = answers[-1].message["result"]["content"][0]["text"]
            assert told == "slow of default/demo did not answer within 0.1 s, the maximum of the tool (maxDurationMs)"

            async def is_pinged() -> bool:
                return any(seen.message["method"] in ("ping", "server/discover") for seen in server.seen)

            await until_async("the server was asked whether it lives", is_pinged, seconds=30)
            assert has_worked(await ask(gateway, calling("demo__x", {}, **more)))
            assert await breaker(gateway) == "closed"
            seen = gateway.outbox.samples.since(0, gateway.endpoint.clock(), 0.0)
            outcomes = {history.tool: {attempt.outcome for attempt in attempts} for history, attempts in seen}
            assert outcomes == {"slow": {"bad"}, "x": {"ok"}}, "what the operator demotes the tool for"


async def test_a_hedged_tool_that_overruns_its_maximum_closes_no_server_for_the_others(tmp_path: Path) -> None:
    twice = entry("slow", latency=DeclaredLatency(max_duration_ms=100, idempotent=True))
    async with raw_server(_answers_all_but_slow) as server:
        demo = catalog("demo", server.url, [twice, "x"], limits=limits(hedge_after_ms=20))
        async with running(tmp_path, demo) as gateway:
            for _ in range(8):
                assert (await ask(gateway, calling("demo__slow"))).refusal == "TIMEOUT"
            assert has_worked(await ask(gateway, calling("demo__x")))
            assert await breaker(gateway) == "closed"


@pytest.mark.parametrize("more", LANES)
async def test_several_tools_that_overrun_their_maximum_do(tmp_path: Path, more: dict[str, Any]) -> None:
    late = [entry(name, latency=DeclaredLatency(max_duration_ms=50)) for name in ("a", "b")]
    async with broken_server("never") as server, running(tmp_path, catalog("demo", server.url, late)) as gateway:
        codes: list[str] = []
        # a call that times out before it is sent does not count as a failure of the server
        while "BREAKER_OPEN" not in codes:
            codes.append((await ask(gateway, calling(f"demo__{'ab'[len(codes) % 2]}", {}, **more))).refusal)
        assert codes[:5] == ["TIMEOUT"] * 5


async def test_a_server_that_answers_no_ping_is_left_alone_although_one_tool_alone_was_called(tmp_path: Path) -> None:
    late = entry("a", latency=DeclaredLatency(max_duration_ms=50))
    async with broken_server("never") as server, running(tmp_path, catalog("demo", server.url, [late])) as gateway:

        async def is_opened() -> bool:
            await ask(gateway, calling("demo__a"))  # counts only if it was sent before its time-out
            return await breaker(gateway) != "closed"

        await until_async("a breaker that opened", is_opened, seconds=60)


@pytest.mark.parametrize("how", ["refuses", "blackhole", "silent", "redirects"])
async def test_no_refusal_says_where_a_server_is(tmp_path: Path, how: str) -> None:
    async def redirect(request: Request, reply: Reply) -> None:
        reply.send(307, location="http://10.1.2.3:8080/elsewhere")

    async with five_dead() as dead, raw_server(redirect) as redirecting:
        url = {**dead, "redirects": redirecting.url}[how]
        demo = catalog("demo", url, ["x"], limits=limits(timeout_ms=200, retries=0))
        async with running(tmp_path, demo) as gateway:
            for _ in range(7):
                for more in LANES:
                    body = (await ask(gateway, calling("demo__x", {}, **more))).body.decode()
                    assert '"isError":true' in body
                    assert not [word for word in ("127.0.0.1", "10.1.2.3", url.split("/")[2]) if word in body], body


@pytest.mark.parametrize("more", [{}, {"progressToken": "p"}])
async def test_calls_beyond_the_limit_wait_and_beyond_the_queue_are_refused(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    go = asyncio.Event()
    most = 0
    running_now = 0

    async def handle(request: Request, reply: Reply) -> None:
        nonlocal most, running_now
        running_now += 1
        most = max(most, running_now)
        await go.wait()
        running_now -= 1
        answer_modern(request, reply, [])

    async with raw_server(handle) as server:
        demo = catalog("demo", server.url, ["x"], limits=limits(concurrency=2))
        async with running(tmp_path, demo, upstream_waiting=3) as gateway:
            wires = [await Wire.connect(gateway) for _ in range(5)]
            requests = [asyncio.ensure_future(wire.ask(calling("demo__x", {}, **more))) for wire in wires]
            await wait_for_requests(server, 2)
            await eventually(
                lambda: gateway.registry.gauges()[next(iter(gateway.snapshot.servers))].waiting >= 3, seconds=20
            )
            refused = await ask(gateway, calling("demo__x", {}, **more))
            assert refused.refusal == "RATE_LIMITED"
            assert refused.message["result"]["_meta"][ERROR]["retryAfterMs"] > 0
            go.set()
            assert all(has_worked(answer) for answer in await asyncio.gather(*requests))
            assert most == 2
            for wire in wires:
                wire.close()


@pytest.mark.parametrize("more", [{}, {"progressToken": "p"}])
async def test_waiting_in_the_queue_has_an_end(tmp_path: Path, more: dict[str, Any]) -> None:
    async with broken_server("never") as server:
        demo = catalog("demo", server.url, ["x"], limits=limits(concurrency=1))
        async with running(tmp_path, demo, upstream_queue_seconds=0.2) as gateway, await Wire.connect(gateway) as wire:
            wire.send(calling("demo__x"))
            await wait_for_requests(server, 1)
            assert (await ask(gateway, calling("demo__x", {}, **more))).refusal == "RATE_LIMITED"
        short = catalog("demo", server.url, ["x"], limits=limits(concurrency=1, timeout_ms=200))
        async with running(tmp_path, short) as gateway, await Wire.connect(gateway) as wire:
            wire.send(calling("demo__x"))
            await wait_for_requests(server, 2)
            assert (await ask(gateway, calling("demo__x", {}, **more))).refusal == "TIMEOUT"


async def test_a_client_that_goes_while_it_waits_frees_its_place(tmp_path: Path) -> None:
    async with broken_server("never") as server:
        demo = catalog("demo", server.url, ["x"], limits=limits(concurrency=1))
        async with running(tmp_path, demo) as gateway, await Wire.connect(gateway) as wire:
            key = next(iter(gateway.snapshot.servers))
            wire.send(calling("demo__x"))
            await wait_for_requests(server, 1)
            for more in ({}, {"progressToken": "p"}):
                gone = await Wire.connect(gateway)
                gone.send(calling("demo__x", {}, **more))
                await eventually(lambda: gateway.registry.gauges()[key].waiting)
                gone.close()
                await eventually(lambda: not gateway.registry.gauges()[key].waiting)
            assert len(server.seen) == 1


@pytest.mark.parametrize("client", ERAS)
async def test_calls_per_second_are_held_to(tmp_path: Path, client: str) -> None:
    async with modern_server() as server:
        demo = catalog("demo", server.url, ["x"], limits=limits(calls_per_second=0.01))
        async with running(tmp_path, demo) as gateway:
            assert has_worked(await ask(gateway, calling("demo__x", era=client)))
            refused = await ask(gateway, calling("demo__x", era=client))
            assert refused.refusal == "RATE_LIMITED"
            assert refused.message["result"]["_meta"][ERROR]["retryAfterMs"] > 60_000
            assert len(server.seen) == 1


@pytest.mark.parametrize(("burst", "at_once"), [(60, 60), (3, 3), (1, 1), (None, 1)])
async def test_a_burst_of_calls_to_a_server_is_let_through_and_the_next_call_refused(
    tmp_path: Path, burst: int | None, at_once: int
) -> None:
    async with modern_server() as server:
        demo = catalog("demo", server.url, ["x"], limits=limits(calls_per_second=0.01, burst=burst))
        async with running(tmp_path, demo) as gateway:
            for _ in range(at_once):
                assert has_worked(await ask(gateway, calling("demo__x")))
            assert (await ask(gateway, calling("demo__x"))).refusal == "RATE_LIMITED"
            assert len(server.seen) == at_once


IDEMPOTENT = entry("x", latency=DeclaredLatency(idempotent=True))
HINTED = entry({"name": "x", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}})


@pytest.mark.parametrize("more", [{}, {"progressToken": "p"}])
@pytest.mark.parametrize(
    ("tool", "trusted", "retries", "attempts"),
    [
        (IDEMPOTENT, False, 1, 2),
        (IDEMPOTENT, False, 0, 1),
        (HINTED, True, 1, 2),
        (HINTED, False, 1, 1),
        (entry("x"), True, 1, 1),
        (entry("x", latency=DeclaredLatency(idempotent=False)), True, 1, 1),
    ],
)
async def test_tools_are_called_twice_only_where_idempotent_and_trusted(
    tmp_path: Path, tool: Any, trusted: bool, retries: int, attempts: int, more: dict[str, Any]
) -> None:
    async def handle(request: Request, reply: Reply) -> None:
        if len(server.seen) == 1:
            reply.close()
        else:
            answer_modern(request, reply, [])

    async with raw_server(handle) as server:
        demo = catalog("demo", server.url, [tool], trust_annotations=trusted, limits=limits(retries=retries))
        async with running(tmp_path, demo) as gateway:
            answer = await ask(gateway, calling("demo__x", {}, **more))
            assert len(server.seen) == attempts
            if attempts == 2:
                assert has_worked(answer)
                assert server.seen[0].message["id"] != server.seen[1].message["id"]
                assert 'fairlead_call_retries_total{fairlead_server="default/demo"} 1.0' in await scrape(gateway)
            else:
                assert answer.refusal == "CONNECTION_LOST"


@contextlib.contextmanager
def blackhole() -> Any:
    """A port at which connections are never established, because its accept queue is full."""
    with socket.socket() as listener, contextlib.ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filling = stack.enter_context(socket.socket())
            filling.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                filling.connect(listener.getsockname())
        yield listener.getsockname()[1]


async def _dribble(request: Request, reply: Reply) -> None:
    reply.raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n")
    while True:
        reply.raw(b" ")
        await reply.flush()
        await asyncio.sleep(0.05)


async def _endless(request: Request, reply: Reply) -> None:
    reply.raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
    while True:
        reply.chunk(b" " * 4096)
        await reply.flush()
        await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def five_dead() -> AsyncIterator[dict[str, str]]:
    """URLs of servers that are dead in five different ways, by name."""
    with blackhole() as hole, socket.socket() as refusing:
        refusing.bind(("127.0.0.1", 0))  # never listens
        async with broken_server("never") as silent, raw_server(_dribble) as slow, raw_server(_endless) as endless:
            yield {
                "refuses": f"http://127.0.0.1:{refusing.getsockname()[1]}/mcp",
                "blackhole": f"http://127.0.0.1:{hole}/mcp",
                "silent": silent.url,
                "dribbles": slow.url,
                "endless": endless.url,
            }


async def test_five_dead_servers_delay_none_of_fifty_and_no_list(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        dead = await stack.enter_async_context(five_dead())
        healthy = [await stack.enter_async_context(modern_server()) for _ in range(50)]
        documents = [catalog(name, url, ["x"], limits=limits(concurrency=8)) for name, url in dead.items()]
        documents += [catalog(f"h{i}", server.url, ["x"]) for i, server in enumerate(healthy)]
        gateway = await stack.enter_async_context(running(tmp_path, *documents, call_timeout=50.0))
        stuck = [stack.enter_context(contextlib.closing(await Wire.connect(gateway))) for _ in range(12 * len(dead))]
        waiting = []
        for number, wire in enumerate(stuck):  # more calls than each server may run and queue
            name = list(dead)[number % len(dead)]
            if name == "refuses":
                assert (await wire.ask(calling("refuses__x"))).refusal in ("CONNECTION_LOST", "BREAKER_OPEN")
            else:
                waiting.append(asyncio.ensure_future(wire.ask(calling(f"{name}__x"))))
        async with asyncio.timeout(45):  # less than the time-outs of the dead servers
            for _ in range(2):
                answers = await asyncio.gather(*(ask(gateway, calling(f"h{i}__x")) for i in range(50)))
                assert all(has_worked(answer) for answer in answers)
                listed = (await ask(gateway, modern("tools/list"))).message["result"]["tools"]
                assert len(listed) == 55
        assert sum(not request.done() for request in waiting) >= 8, "those of the dead ones are still on their way"
        for request in waiting:
            request.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


@pytest.mark.parametrize("more", [{}, {"progressToken": "p"}])
async def test_the_call_timeout_of_a_tier_ends_calls_in_that_tier(tmp_path: Path, more: dict[str, Any]) -> None:
    tiers = (Tier(name="deep", default=True), Tier(name="fast", call_timeout_ms=100))
    async with broken_server("never") as server:
        demo = catalog("demo", server.url, ["x"], limits=limits(timeout_ms=50_000))
        async with running(tmp_path, demo, Rules(tiers=tiers)) as gateway, await Wire.connect(gateway) as patient:
            patient.send(calling("demo__x", {}, **more))
            await wait_for_requests(server, 1)
            for _ in range(6):
                assert (await ask(gateway, calling("demo__x", {}, **more).to("/mcp/fast"))).refusal == "TIMEOUT"
            assert await breaker(gateway) == "closed"
            assert len(gateway.endpoint.calls) == 1, "in the other tier it has more time"
