"""`GET /v1/events`: changes of servers, read by a client on a socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.codec import Document
from fairlead_api.documents.servers import FileProblem, ServerEntry, Servers
from fairlead_app.gateway import Gateway
from fairlead_gateway.catalog.model import EMPTY, Snapshot, build
from fairlead_gateway.events import Event, EventLog, MissedEvents
from fairlead_rest.resources import events
from gatewayworld import Ask, Wire, catalog, publish, running, wait_for_snapshots, withdraw
from restworld import get, problem

URL = "http://127.0.0.1:9/mcp"


class Reader:
    """A client that reads one event at a time."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def next(self) -> tuple[str, Any]:
        """Id and data of the next event."""
        ident = ""
        async with asyncio.timeout(20):
            while True:
                line = (await self._wire.reader.readline()).decode()
                assert line, "the stream has ended"
                if line.startswith("id: "):
                    ident = line[4:].strip()
                elif line.startswith("data: "):
                    return ident, json.loads(line[6:])

    async def types(self, count: int) -> list[str]:
        return [(await self.next())[1]["type"] for _ in range(count)]

    async def read_to_end(self) -> bytes:
        return await self._wire.read_to_end(20)


@contextlib.asynccontextmanager
async def follow_events(
    gateway: Gateway, last: str | None = None, address: str = "", query: str = ""
) -> AsyncIterator[Reader]:
    """Open a stream that begins after the event `last`. `address`: the client's address, as a trusted proxy reports
    it."""
    headers = {} if last is None else {"last-event-id": last}
    if address:
        headers["x-forwarded-for"] = address
    async with await Wire.connect(gateway) as wire:
        wire.send(Ask(verb="GET", target=f"/v1/events{query}", body=b"", headers=headers))
        async with asyncio.timeout(20):
            head = await wire.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert b"content-type: text/event-stream" in head.lower()
        yield Reader(wire)


def offline(document: Catalog) -> Catalog:
    return msgspec.structs.replace(document, online=False)


async def test_a_loss_a_return_changed_tools_and_a_removal_are_told_in_order(tmp_path: Path) -> None:
    documents = tmp_path / "documents"
    demo = catalog("demo", URL, ["add", "old"])
    async with running(tmp_path, demo) as gateway, follow_events(gateway) as reader:
        assert await reader.types(1) == ["stream.opened"]
        publish(documents, offline(demo))
        _, lost = await reader.next()
        assert (lost["type"], lost["server"], lost["reason"]) == ("server.disconnected", "default/demo", "offline")
        assert await reader.types(1) == ["catalog.swapped"]
        changed = {"name": "add", "inputSchema": {"type": "object", "properties": {"a": {}}}}
        publish(documents, catalog("demo", URL, [changed, "new"]))
        _, tools = await reader.next()
        assert (tools["added"], tools["removed"], tools["changed"]) == (["new"], ["old"], ["add"])
        assert await reader.types(2) == ["server.connected", "catalog.swapped"]
        withdraw(documents, demo)
        _, gone = await reader.next()
        assert (gone["type"], gone["reason"]) == ("server.disconnected", "removed")
        assert await reader.types(2) == ["tools.changed", "catalog.swapped"]


async def test_a_reader_resumes_behind_the_event_that_it_read_last(tmp_path: Path) -> None:
    documents = tmp_path / "documents"
    demo = catalog("demo", URL, ["add"])
    async with running(tmp_path, demo) as gateway:
        async with follow_events(gateway) as reader:
            await reader.next()
            publish(documents, offline(demo))
            last, _ = await reader.next()
        publish(documents, demo)
        await wait_for_snapshots(gateway, 3)
        async with follow_events(gateway, last) as reader:
            _, opened = await reader.next()
            assert (opened["id"], opened["missed"]) == (last, False)
            assert await reader.types(3) == ["catalog.swapped", "server.connected", "catalog.swapped"]
        async with follow_events(gateway, "another-1") as reader:
            _, opened = await reader.next()
            assert opened["missed"] is True
            assert opened["id"] == gateway.events.ident(gateway.events.number)


async def test_a_stream_begins_with_the_last_events_that_it_asks_for(tmp_path: Path) -> None:
    demo = catalog("demo", URL, ["add"])
    async with running(tmp_path, demo) as gateway:
        publish(tmp_path / "documents", offline(demo))
        await wait_for_snapshots(gateway, 2)
        publish(tmp_path / "documents", demo)
        await wait_for_snapshots(gateway, 3)
        async with follow_events(gateway, query="?tail=2") as reader:
            assert await reader.types(5) == [
                "stream.opened",
                "server.disconnected",
                "catalog.swapped",
                "server.connected",
                "catalog.swapped",
            ]
        assert problem(await get(gateway, "/v1/events?tail=1025")) == (400, "INVALID_ARGUMENTS")


def waiting_entry(name: str) -> ServerEntry:
    return ServerEntry(namespace="default", name=name, state="waiting")


async def test_past_swaps_that_changed_nothing_are_left_out_of_the_last_events(tmp_path: Path) -> None:
    demo, documents = catalog("demo", URL, ["add"]), tmp_path / "documents"
    async with running(tmp_path, demo) as gateway:
        for number in range(5):
            publish(documents, demo, Servers(servers=(waiting_entry(f"s{number}"),)))
            await wait_for_snapshots(gateway, 2 + number)
        publish(documents, offline(demo))
        await wait_for_snapshots(gateway, 7)
        async with follow_events(gateway, query="?tail=2") as reader:
            assert await reader.types(5) == [
                "stream.opened",
                "server.connected",
                "catalog.swapped",
                "server.disconnected",
                "catalog.swapped",
            ]


async def test_problems_of_files_are_told_to_those_alone_who_may_read_what_servers_print(tmp_path: Path) -> None:
    broken = FileProblem(file="mcp.json", message="mcp.json:2: not valid JSON")
    mail = ServerEntry(namespace="default", name="mail", state="failed", cause="VariableNotSet", message="no TOKEN")
    documents = tmp_path / "documents"
    async with (
        running(tmp_path, catalog("demo", URL, ["add"]), trusted_proxies=("127.0.0.1",)) as gateway,
        follow_events(gateway) as here,
        follow_events(gateway, address="192.0.2.1") as elsewhere,
    ):
        assert await here.types(1) == await elsewhere.types(1)
        publish(documents, Servers(servers=(mail,), files=(broken,)))
        _, failed = await here.next()
        _, rejected = await here.next()
        assert (failed["type"], failed["server"], failed["reason"]) == (
            "server.failed",
            "default/mail",
            "VariableNotSet",
        )
        assert "message" not in failed
        assert (rejected["type"], rejected["file"]) == ("file.rejected", "mcp.json")
        assert rejected["message"] == broken.message
        assert await elsewhere.types(2) == ["server.failed", "catalog.swapped"]
        told = [await get(gateway, "/v1/servers", **headers) for headers in ({}, {"x-forwarded-for": "192.0.2.1"})]
        assert [answer.message.get("fileProblems") for answer in told] == [
            [{"file": "mcp.json", "message": broken.message}],
            None,
        ]
        publish(documents, Servers(servers=(mail,)))
        assert await here.types(3) == ["catalog.swapped", "file.accepted", "catalog.swapped"]


async def test_a_server_that_fails_again_for_the_same_cause_is_told_once_until_it_answered() -> None:
    log = EventLog()
    heard = list[Event]()
    log.subscribe(heard.append)

    def snapshot(state: str, cause: str, *, online: bool = False) -> Snapshot:
        entry = ServerEntry(namespace="default", name="mail", state=state, cause=cause)
        documents: dict[str, Document] = {"servers": Servers(servers=(entry,))}
        return build({**documents, "mail": catalog("mail", URL, [])} if online else documents)

    states = [
        snapshot("failed", "StartFailed"),
        snapshot("starting", "Deploying"),
        snapshot("failed", "StartFailed"),
        snapshot("failed", "Timeout"),
        snapshot("ready", "", online=True),
        snapshot("failed", "Timeout"),
    ]
    before = EMPTY
    for after in states:
        await log.on_swap(before, after)
        before = after
    assert [event.reason for event in heard if event.type == "server.failed"] == ["StartFailed", "Timeout", "Timeout"]


async def test_streams_end_when_the_gateway_stops_and_are_bounded_in_number(tmp_path: Path) -> None:
    async with (
        running(tmp_path, catalog("demo", URL, ["add"]), trusted_proxies=("127.0.0.1",)) as gateway,
        contextlib.AsyncExitStack() as stack,
    ):
        addresses = [f"192.0.2.{number % 4 + 1}" for number in range(events.MAX_READERS)]
        reader, *_ = [await stack.enter_async_context(follow_events(gateway, address=address)) for address in addresses]
        await reader.next()
        refused = await get(gateway, "/v1/events")
        assert problem(refused) == (429, "RATE_LIMITED")
        await gateway.stop(5)
        assert (await reader.read_to_end()).endswith(b"0\r\n\r\n"), "ended in order, not cut off"


async def test_a_quiet_stream_sends_heartbeats() -> None:
    log = EventLog()
    stream = events.pieces(log, None, heartbeat=0.01)
    assert b"stream.opened" in await anext(stream)
    assert await anext(stream) == b": heartbeat\n\n"
    log.close()
    assert [piece async for piece in stream] == []


async def test_events_that_fall_out_of_the_ring_are_told_as_missed() -> None:
    log = EventLog(max_events=4)
    stream = events.pieces(log, None, heartbeat=5)
    await anext(stream)
    snapshots = [build({"a": catalog("demo", URL, ["add"])}), EMPTY]
    for number in range(4):
        await log.on_swap(snapshots[(number + 1) % 2], snapshots[number % 2])
    with pytest.raises(MissedEvents):
        await log.after(0, 0)
    assert len(await log.after(log.number - 4, 0)) == 4
    assert b'"missed":true' in await anext(stream)


async def test_a_listener_hears_each_event_and_one_that_fails_stops_no_other() -> None:
    log = EventLog()
    heard = list[Event]()

    def fails(event: Event) -> None:
        raise RuntimeError("of the listener's own")

    log.subscribe(fails)
    end = log.subscribe(heard.append)
    snapshot = build({"a": catalog("demo", URL, ["add"])})
    await log.on_swap(EMPTY, snapshot)
    assert [event.type for event in heard] == ["tools.changed", "server.connected", "catalog.swapped"]
    end()
    await log.on_swap(snapshot, EMPTY)
    assert len(heard) == 3


async def test_the_stream_is_in_the_openapi_document(tmp_path: Path) -> None:
    async with running(tmp_path, catalog("demo", URL, ["add"])) as gateway:
        document = (await get(gateway, "/openapi.json")).message
    content = document["paths"]["/v1/events"]["get"]["responses"]["200"]["content"]
    assert {each["$ref"].rsplit("/", 1)[1] for each in content["text/event-stream"]["schema"]["anyOf"]} == {
        "Event",
        "Opened",
    }
    assert {"Event", "Opened"} <= set(document["components"]["schemas"])
