"""Calls of disconnected legacy clients: by default they continue; a setting or the end of the session ends them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from fairlead_gateway.endpoint.event_store import KEEP_SECONDS
from gatewayworld import LEGACY, Ask, Wire, ask, calling, catalog, legacy, running, wait_for_requests
from toolservers import broken_server
from waiting import eventually

STREAM_FIRST = "text/event-stream, application/json"


async def session_of(gateway: Any) -> str:
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    return (await ask(gateway, legacy("initialize", hello))).headers["mcp-session-id"]


def end_session(session: str) -> Ask:
    return Ask(verb="DELETE", headers={"mcp-session-id": session})


@pytest.mark.parametrize("in_session", [False, True])
async def test_a_call_that_nobody_can_come_back_to_is_cancelled_where_a_setting_says_so(
    tmp_path: Path, in_session: bool
) -> None:
    async with (
        broken_server("never") as server,
        running(tmp_path, catalog("demo", server.url, ["x"]), cancel_abandoned=True) as gateway,
    ):
        session = await session_of(gateway) if in_session else None
        wire = await Wire.connect(gateway)
        wire.send(calling("demo__x", era=LEGACY, session=session))
        await wait_for_requests(server, 1)
        wire.close()
        await asyncio.wait_for(server.broken_off.wait(), 5)
        await eventually(lambda: not gateway.endpoint.calls)


async def test_a_stream_without_an_id_to_come_back_with_is_cancelled_at_once(tmp_path: Path) -> None:
    async with (
        broken_server("never") as server,
        running(tmp_path, catalog("demo", server.url, ["x"]), cancel_abandoned=True) as gateway,
    ):
        wire = await Wire.connect(gateway)
        wire.send(calling("demo__x", era=LEGACY).with_headers(accept=STREAM_FIRST))
        await wire.reader.readuntil(b"\r\n\r\n")
        await wait_for_requests(server, 1)
        wire.close()
        await asyncio.wait_for(server.broken_off.wait(), 5)


async def test_a_stream_that_a_client_can_come_back_to_is_waited_with(tmp_path: Path) -> None:
    ahead = 0.0
    async with (
        broken_server("never") as server,
        running(
            tmp_path,
            catalog("demo", server.url, ["x"]),
            cancel_abandoned=True,
            clock=lambda: time.monotonic() + ahead,
        ) as gateway,
    ):
        session = await session_of(gateway)
        wire = await Wire.connect(gateway)
        wire.send(calling("demo__x", era=LEGACY, session=session).with_headers(accept=STREAM_FIRST))
        head = await wire.reader.readuntil(b"data: \n\n")
        await wait_for_requests(server, 1)
        wire.close()
        await eventually(lambda: not gateway._listener.connections)
        gateway.endpoint.event_store.sweep()
        assert len(gateway.endpoint.calls) == 1

        event = head.partition(b"id: ")[2].partition(b"\n")[0].decode()
        back = {"accept": "text/event-stream", "mcp-session-id": session, "last-event-id": event}
        wire = await Wire.connect(gateway)
        wire.send(Ask(headers=back, body=b"", verb="GET"))
        await wire.reader.readuntil(b"\r\n\r\n")
        ahead = KEEP_SECONDS - 1
        gateway.endpoint.event_store.sweep()
        assert len(gateway.endpoint.calls) == 1, "its client is back"

        wire.close()
        await eventually(lambda: not gateway._listener.connections)
        ahead += KEEP_SECONDS + 1
        gateway.endpoint.event_store.sweep()
        await asyncio.wait_for(server.broken_off.wait(), 5)
        await eventually(lambda: not gateway.endpoint.calls)


@pytest.mark.parametrize("accept", ["application/json, text/event-stream", STREAM_FIRST], ids=["plain", "as a stream"])
async def test_a_client_that_ends_its_session_ends_its_calls_and_no_others(tmp_path: Path, accept: str) -> None:
    async with (
        broken_server("never") as server,
        running(tmp_path, catalog("demo", server.url, ["x"])) as gateway,
        await Wire.connect(gateway) as mine,
        await Wire.connect(gateway) as other,
    ):
        sessions = [await session_of(gateway) for _ in range(2)]
        for wire, session in zip((mine, other), sessions, strict=True):
            wire.send(calling("demo__x", era=LEGACY, session=session).with_headers(accept=accept))
        await wait_for_requests(server, 2)
        assert (await ask(gateway, end_session(sessions[0]))).status == 200
        await asyncio.wait_for(server.broken_off.wait(), 5)
        await eventually(lambda: len(gateway.endpoint.calls) == 1)
        await mine.reader.readuntil(b"CANCELLED")
