"""Answers that clients do not read: limits in bytes for the gateway and for each agent, without effect on other
clients."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from certificates import Authority
from fairlead_app.gateway import Gateway
from gatewayprocess import interpreted
from gatewayworld import Answer, Ask, Reachable, Wire, ask, calling, catalog, legacy, modern, publish, running, scrape
from rawserver import RawServer, Reply, Request, raw_server
from restworld import MESSAGES, Calls, post, problem
from toolservers import answer_handshake, answer_modern, modern_server, tool
from waiting import eventually, until_async

MIB = 1 << 20
LARGE = 6 * MIB
BUDGET = 20 * MIB
CLIENTS = 12
SECOND = "127.0.0.2"
"""Address of another agent: without authentication, agents are distinguished by address."""


def large(request: Request) -> dict[str, Any]:
    size = LARGE if request.params["name"] == "large" else 1
    return {"content": [{"type": "text", "text": "x" * size}], "isError": False}


@contextlib.asynccontextmanager
async def server() -> AsyncIterator[RawServer]:
    async with modern_server([tool("large"), tool("small")], call=large) as started:
        yield started


@contextlib.asynccontextmanager
async def streaming_server() -> AsyncIterator[RawServer]:
    """A server that answers with events in many small chunks without an announced length."""

    async def handle(request: Request, reply: Reply) -> None:
        if request.method != "tools/call":
            answer_modern(request, reply, [tool("large"), tool("small")])
            return
        reply.open_stream()
        result = {"resultType": "complete", **large(request)}
        event = json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": result}).encode()
        reply.chunk(b"data: ")
        for start in range(0, len(event), 100_000):
            reply.chunk(event[start : start + 100_000])
            await reply.flush()
        reply.chunk(b"\n\n")
        reply.end_stream()

    async with raw_server(handle) as started:
        yield started


async def connect_without_reading(gateway: Reachable, address: str = "127.0.0.1", **more: Any) -> Wire:
    """Connect a client that does not read."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.setblocking(False)
    made.bind((address, 0))
    await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", gateway.port))
    reader, writer = await asyncio.open_connection(sock=made, limit=2 * LARGE, **more)
    wire = Wire(reader, writer, f"127.0.0.1:{gateway.port}")
    wire.transport.pause_reading()
    return wire


async def read_late(wires: Sequence[Wire]) -> list[Answer]:
    """Let the clients read, in large pieces. Returns their answers."""
    for wire in wires:
        wire.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MIB)
        wire.transport.resume_reading()
    return await asyncio.gather(*(wire.answer() for wire in wires))


async def deaf(gateway: Reachable, request: Ask, address: str = "127.0.0.1") -> Wire:
    """A client that sends a request and does not read."""
    wire = await connect_without_reading(gateway, address)
    wire.send(request)
    return wire


@contextlib.asynccontextmanager
async def crowd(gateway: Reachable, request: Ask, number: int = CLIENTS, **more: Any) -> AsyncIterator[Sequence[Wire]]:
    """Clients that send a request at the same time and do not read."""
    wires = [await connect_without_reading(gateway, **more) for _ in range(number)]
    try:
        # all are connected, so answers to the first cannot use up the budget before the last sends its request
        for wire in wires:
            wire.send(request)
        yield wires
    finally:
        for wire in wires:
            wire.transport.abort()


def resident(pid: int) -> int:
    """Resident memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def held_bytes(gateway: Gateway) -> int:
    whole = gateway.endpoint.buffers.whole
    return whole.arriving + whole.unread


def is_refused_or_answered(gateway: Gateway, calls: int) -> bool:
    """Whether an agent's request was refused, or the answers of `calls` calls have completely arrived at the
    gateway."""
    buffers = gateway.endpoint.buffers
    counted = sum(series.count for _, series in gateway.call_metrics.histograms())
    return buffers.refused["agent"] > 0 or (counted == calls and not buffers.whole.arriving)


def outcomes(gateway: Gateway) -> set[str]:
    return {error for (_, _, _, error), series in gateway.call_metrics.histograms() if series.count}


async def await_no_bytes(gateway: Gateway) -> None:
    """Wait until no bytes are counted any more."""
    await eventually(lambda: held_bytes(gateway) == 0 and not gateway.endpoint.buffers.agents)
    assert not gateway.endpoint.buffers.refuses_requests
    assert gateway.endpoint.buffers.paused_responses == 0


@pytest.mark.parametrize("by_events", [False, True])
async def test_servers_are_not_read_and_requests_are_refused_while_clients_leave_a_budget_unread(
    tmp_path: Path, by_events: bool
) -> None:
    serving = streaming_server if by_events else server
    async with serving() as upstream:
        document = catalog("demo", upstream.url, ["large", "small"])
        async with running(tmp_path, document, answer_bytes=BUDGET, answer_bytes_each=0) as gateway:
            buffers = gateway.endpoint.buffers
            async with crowd(gateway, calling("demo__large")):
                await eventually(lambda: buffers.whole.unread >= buffers.whole.half and buffers.paused_responses > 0)
                assert held_bytes(gateway) <= BUDGET + 2 * LARGE
                refused = await ask(gateway, calling("demo__small"))
                assert (refused.status, refused.headers["retry-after"]) == (503, "1")
                assert refused.message["error"]["data"]["fairlead.dev/error"]["code"] == "RATE_LIMITED"
                assert (await ask(gateway, modern("tools/list"))).status == 503
                assert problem(await post(gateway, "/v1/tool-calls", {})) == (503, "OVERLOADED")
                figures = await scrape(gateway)
                [unread] = re.findall(r'fairlead_answer_bytes\{state="unread"\} (\S+)', figures)
                assert float(unread) == buffers.whole.unread
                assert 'fairlead_requests_shed_total{budget="gateway"} 3.0' in figures
            await await_no_bytes(gateway)
            assert (await ask(gateway, calling("demo__large"))).status == 200
            await await_no_bytes(gateway)


@pytest.mark.parametrize("session", [None, "PerClient"])
async def test_an_agent_that_does_not_read_is_refused_and_others_go_on(tmp_path: Path, session: str | None) -> None:
    more = {} if session is None else {"session": session}
    async with server() as upstream:
        document = catalog("demo", upstream.url, ["large", "small"], **more)
        async with running(tmp_path, document, answer_bytes=0, answer_bytes_each=BUDGET) as gateway:
            buffers = gateway.endpoint.buffers
            async with crowd(gateway, calling("demo__large"), address=SECOND):
                await eventually(lambda: buffers.whole.unread >= BUDGET // 2 and buffers.paused_responses > 0)
                assert held_bytes(gateway) <= BUDGET + 2 * LARGE
                async with await deaf(gateway, calling("demo__small"), SECOND) as refused:
                    refused.transport.resume_reading()
                    assert (await refused.answer()).status == 429
                for _ in range(3):
                    answer = await ask(gateway, calling("demo__large"))
                    assert len(answer.message["result"]["content"][0]["text"]) == LARGE
            await await_no_bytes(gateway)


async def test_answers_that_are_read_late_arrive_whole_and_free_their_room(tmp_path: Path) -> None:
    async with server() as upstream:
        document = catalog("demo", upstream.url, ["large"])
        async with running(tmp_path, document, answer_bytes=BUDGET, answer_bytes_each=0) as gateway:
            async with crowd(gateway, calling("demo__large")) as wires:
                await eventually(lambda: gateway.endpoint.buffers.paused_responses > 0)
                for answer in await read_late(wires):
                    assert len(answer.message["result"]["content"][0]["text"]) == LARGE
            await await_no_bytes(gateway)


async def test_a_call_that_waits_for_room_until_its_deadline_says_so_and_its_server_is_not_blamed(
    tmp_path: Path,
) -> None:
    async with server() as upstream:
        document = catalog("demo", upstream.url, ["large", "small"])
        bounds: dict[str, Any] = {"answer_bytes": 0, "answer_bytes_each": BUDGET, "call_timeout": 6.0}
        async with running(tmp_path, document, **bounds) as gateway:
            async with crowd(gateway, calling("demo__large"), 6, address=SECOND):
                await eventually(lambda: "RATE_LIMITED" in outcomes(gateway))
                [guard] = gateway.registry.guards.values()
                assert guard.breaker.opened_total == 0
                assert "TIMEOUT" not in outcomes(gateway)
                assert (await ask(gateway, calling("demo__small"))).status == 200
            await await_no_bytes(gateway)


async def test_unread_answers_over_tls_are_counted_and_read_late_are_whole(tmp_path: Path) -> None:
    authority = Authority()
    cert = tmp_path / "tls.pem"
    cert.write_text(authority.issue())
    trust = ssl.create_default_context(cadata=authority.bundle)
    async with server() as upstream:
        document = catalog("demo", upstream.url, ["large"])
        bounds: dict[str, Any] = {"tls_cert": cert, "answer_bytes": BUDGET, "answer_bytes_each": 0}
        async with running(tmp_path, document, **bounds) as gateway:
            buffers = gateway.endpoint.buffers
            async with crowd(gateway, calling("demo__large"), ssl=trust, server_hostname="127.0.0.1") as wires:
                await eventually(lambda: buffers.whole.unread >= buffers.whole.half and buffers.paused_responses > 0)
                assert held_bytes(gateway) <= BUDGET + 2 * LARGE
                for answer in await read_late(wires):
                    assert len(answer.message["result"]["content"][0]["text"]) == LARGE
            await await_no_bytes(gateway)


async def test_results_of_one_rest_request_are_bounded_together(tmp_path: Path) -> None:
    calls: Calls = [(f"call_{number}", "demo__large", {}) for number in range(8)]
    body = {"format": "openai-chat", "message": MESSAGES["openai-chat"](calls)}
    async with server() as upstream:
        document = catalog("demo", upstream.url, ["large"])
        async with running(tmp_path, document, answer_bytes=0, answer_bytes_each=BUDGET) as gateway:
            answer = (await post(gateway, "/v1/tool-calls", body)).message
            states = [(call["state"], call.get("code")) for call in answer["calls"]]
            assert set(states) == {("done", None), ("refused", "RESULT_TOO_LARGE")}
            assert states.count(("done", None)) == BUDGET // LARGE
            await await_no_bytes(gateway)


async def test_answers_of_rest_that_nobody_reads_are_counted_for_their_agent(tmp_path: Path) -> None:
    body = {"format": "openai-chat", "message": MESSAGES["openai-chat"]([("a", "demo__large", {})])}
    request = Ask(body, {"content-type": "application/json"}, target="/v1/tool-calls")
    async with server() as upstream:
        document = catalog("demo", upstream.url, ["large", "small"])
        async with running(tmp_path, document, answer_bytes=0, answer_bytes_each=BUDGET) as gateway:
            buffers = gateway.endpoint.buffers
            async with contextlib.AsyncExitStack() as unread:
                wires: list[Wire] = []
                # the number of bytes cannot be the criterion, because the kernel buffers more and more
                while not buffers.refused["agent"]:
                    wires += await unread.enter_async_context(crowd(gateway, request, 1, address=SECOND))
                    await eventually(partial(is_refused_or_answered, gateway, len(wires)))
                assert problem(*await read_late(wires[-1:])) == (429, "RATE_LIMITED")
                assert (await ask(gateway, calling("demo__large"))).status == 200
            await await_no_bytes(gateway)


async def test_the_rest_of_a_stream_that_nobody_reads_is_counted(tmp_path: Path) -> None:
    """The answer is the last event of a stream that has already begun, or of the GET that resumes it."""

    async def handle(request: Request, reply: Reply) -> None:
        if answer_handshake(request, reply, mcp_session_id="s"):
            return
        reply.open_stream()
        token = request.params["_meta"]["progressToken"]
        reply.event(
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1}}
        )
        reply.event({"jsonrpc": "2.0", "id": request.message["id"], "result": large(request)})
        reply.end_stream()

    request = legacy("tools/call", {"name": "demo__large", "arguments": {}, "_meta": {"progressToken": 1}})
    async with raw_server(handle) as upstream:
        document = catalog("demo", upstream.url, ["large"], version="2025-11-25")
        async with running(tmp_path, document, answer_bytes=BUDGET, answer_bytes_each=0) as gateway:
            buffers = gateway.endpoint.buffers
            async with crowd(gateway, request):
                await eventually(lambda: buffers.whole.full)
                assert held_bytes(gateway) <= BUDGET + 2 * LARGE
            await await_no_bytes(gateway)


async def test_forty_clients_that_do_not_read_cost_a_bounded_amount_of_memory(tmp_path: Path) -> None:
    """The gateway runs in a process of its own, so that no other memory counts. Without a limit, it would use more
    memory than all answers have bytes."""
    async with server() as upstream:
        publish(tmp_path, catalog("demo", upstream.url, ["large", "small"]))
        async with interpreted(FAIRLEAD_DOCUMENTS=str(tmp_path), FAIRLEAD_ANSWER_BYTES=str(BUDGET)) as gateway:
            gateway.port = int((await gateway.line(r"MCP on http://127\.0\.0\.1:(\d+)/mcp"))[1])
            assert (await ask(gateway, calling("demo__small"))).status == 200
            before = resident(gateway.process.pid)
            async with crowd(gateway, calling("demo__large"), 40):

                async def is_shed() -> bool:
                    return (await ask(gateway, calling("demo__small"))).status == 503

                await until_async("the gateway refuses calls", is_shed)
                assert resident(gateway.process.pid) - before < 40 * LARGE // 2
