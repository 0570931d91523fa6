"""Calls that end before their answer: cancelled, abandoned, or overtaken by the end of the gateway."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from askers import session_of
from gatewayworld import LEGACY, MODERN, Ask, Wire, ask, calling, catalog, legacy, running, wait_for_requests
from rawserver import Reply, Request, raw_server
from toolservers import broken_server, modern_server, tool
from waiting import eventually

ERAS = (MODERN, LEGACY)


async def test_a_modern_client_that_goes_away_cancels_its_call_at_the_server(tmp_path: Path) -> None:
    async with broken_server("never") as server, running(tmp_path, catalog("demo", server.url, ["x"])) as gateway:
        wire = await Wire.connect(gateway)
        wire.send(calling("demo__x"))
        await wait_for_requests(server, 1)
        wire.close()
        await asyncio.wait_for(server.broken_off.wait(), 5)
        await eventually(lambda: not gateway.endpoint.calls)


async def test_a_modern_client_that_goes_away_has_a_legacy_server_told(tmp_path: Path) -> None:
    told = asyncio.Event()

    async def handle(request: Request, reply: Reply) -> None:
        if request.method == "initialize":
            agreed = {"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
            reply.result(request, agreed)
        elif request.method == "tools/call":
            await asyncio.Event().wait()
        else:
            if request.method == "notifications/cancelled":
                told.set()
            reply.send(202)

    async with raw_server(handle) as server:
        async with running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway:
            wire = await Wire.connect(gateway)
            wire.send(calling("demo__x"))
            await wait_for_requests(server, 3)
            wire.close()
            await asyncio.wait_for(told.wait(), 5)
        by_method = {request.method: request for request in server.seen}
        call = by_method["tools/call"]
        cancel = by_method["notifications/cancelled"]
        assert cancel.params["requestId"] == call.message["id"]


async def test_a_legacy_client_that_goes_away_does_not_cancel(tmp_path: Path) -> None:
    release = asyncio.Event()
    finished = asyncio.Event()

    async def handle(request: Request, reply: Reply) -> None:
        await release.wait()
        reply.result(request, {"content": [], "resultType": "complete"})
        finished.set()

    async with raw_server(handle) as server, running(tmp_path, catalog("demo", server.url, ["x"])) as gateway:
        wire = await Wire.connect(gateway)
        wire.send(calling("demo__x", era=LEGACY))
        await wait_for_requests(server, 1)
        wire.close()
        await eventually(lambda: not gateway._listener.connections)
        assert len(gateway.endpoint.calls) == 1
        with pytest.raises(TimeoutError):  # the cancellation would arrive at once
            await asyncio.wait_for(server.broken_off.wait(), 0.2)
        release.set()
        await asyncio.wait_for(finished.wait(), 5)
        assert not server.broken_off.is_set()


async def test_a_legacy_client_cancels_its_own_call_by_session_and_id(tmp_path: Path) -> None:
    async with (
        broken_server("never") as server,
        running(tmp_path, catalog("demo", server.url, ["x"])) as gateway,
        await Wire.connect(gateway) as mine,
        await Wire.connect(gateway) as other,
    ):
        session = await session_of(gateway, {})
        mine.send(calling("demo__x", era=LEGACY, number=7, session=session))
        other.send(calling("demo__x", era=LEGACY, number=7, session=await session_of(gateway, {})))
        await wait_for_requests(server, 2)
        cancel = legacy("notifications/cancelled", {"requestId": 7}, number=None, session=session)
        assert (await ask(gateway, cancel)).status == 202
        assert (await mine.answer()).refusal == "CANCELLED"
        assert len(gateway.endpoint.calls) == 1


async def test_calls_in_flight_are_finished_when_the_gateway_stops(tmp_path: Path) -> None:
    release = asyncio.Event()

    async def handle(request: Request, reply: Reply) -> None:
        await release.wait()
        reply.result(request, {"content": [], "resultType": "complete"})

    async with (
        raw_server(handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"])) as gateway,
        await Wire.connect(gateway) as busy,
        await Wire.connect(gateway) as idle,
    ):
        assert (await idle.ask(legacy("ping"))).status == 200
        busy.send(calling("demo__x"))
        await wait_for_requests(server, 1)
        stopping = asyncio.create_task(gateway.stop(5))
        assert await idle.read_to_end() == b""
        assert gateway.readiness().ready is False
        with pytest.raises(ConnectionError):
            await Wire.connect(gateway)
        release.set()
        answer = await busy.answer()
        assert answer.message["result"]["content"] == []
        await asyncio.wait_for(stopping, 5)


@pytest.mark.parametrize("request_", [legacy("ping"), calling("demo__x"), Ask(verb="GET", target="/readyz")])
async def test_a_draining_gateway_answers_requests_and_closes_their_connections(tmp_path: Path, request_: Ask) -> None:
    async with (
        modern_server([tool("x")]) as server,
        running(tmp_path, catalog("demo", server.url, ["x"]), drain=30.0) as gateway,
        await Wire.connect(gateway) as early,
    ):
        assert "connection" not in (await early.ask(request_)).headers
        stopping = asyncio.create_task(gateway.stop(5))
        await eventually(lambda: not gateway.readiness().ready)
        async with await Wire.connect(gateway) as late:
            for wire in (early, late):
                answer = await wire.ask(request_)
                assert answer.headers["connection"] == "close"
                assert answer.status == (503 if request_.verb == "GET" else 200)
                assert await wire.read_to_end() == b""
        assert not stopping.done()
        stopping.cancel()
        await asyncio.gather(stopping, return_exceptions=True)


async def test_calls_that_do_not_end_within_the_grace_are_told_so(tmp_path: Path) -> None:
    async with (
        broken_server("never") as server,
        running(tmp_path, catalog("demo", server.url, ["x"])) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        wire.send(calling("demo__x"))
        await wait_for_requests(server, 1)
        await asyncio.wait_for(gateway.stop(0.1), 5)
        assert (await wire.answer()).refusal == "CANCELLED"
