"""Servers that are called over a message stream: stdio in a pod, and HTTP+SSE."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from fairlead_api.documents.catalog import EventsEndpoint
from gated_stdio_server import CREDENTIAL, gated, write_token
from gatewayworld import LEGACY, Wire, ask, calling, catalog, running
from serverprocesses import sse_server
from toolservers import LEGACY_STDIO, SDK_STDIO
from waiting import eventually, until_async


async def test_a_stdio_server_behind_its_gate_is_called_by_clients_of_both_eras(tmp_path: Path) -> None:
    write_token(tmp_path)
    async with (
        gated(SDK_STDIO) as server,
        running(tmp_path, catalog("demo", server.endpoint, ["add", "progress"], credential=CREDENTIAL)) as gateway,
    ):
        for era in (LEGACY, "2026-07-28"):
            answer = await ask(gateway, calling("demo__add", {"a": 2, "b": 3}, era=era))
            assert answer.message["result"]["structuredContent"] == {"result": 5}
        calls = [ask(gateway, calling("demo__add", {"a": n, "b": 0}, number=n)) for n in range(50)]
        results = [answer.message["result"]["structuredContent"] for answer in await asyncio.gather(*calls)]
        assert results == [{"result": n} for n in range(50)]
        assert len(server.servers) == 1, "one process for all of this gateway's calls"
        async with await Wire.connect(gateway) as wire:
            answer = await wire.ask(calling("demo__progress", {"steps": 2}, progressToken="mine"))
            progress = [event["params"]["progressToken"] for event in answer.events if "method" in event]
            assert progress == ["mine", "mine"]


async def test_a_process_that_dies_costs_the_calls_in_flight_and_no_later_one(tmp_path: Path) -> None:
    write_token(tmp_path)
    async with gated(LEGACY_STDIO) as server:
        document = catalog("demo", server.endpoint, ["echo", "later"], version=LEGACY, credential=CREDENTIAL)
        async with running(tmp_path, document) as gateway:
            assert not (await ask(gateway, calling("demo__echo"))).message["result"].get("isError")
            waiting = asyncio.create_task(ask(gateway, calling("demo__later", {"n": 99})))
            await eventually(lambda: gateway.registry.gauges()[document.key].busy)
            os.kill(server.servers[0], signal.SIGKILL)
            assert (await waiting).refusal == "CONNECTION_LOST"

            async def answers() -> bool:
                return not (await ask(gateway, calling("demo__echo"))).message["result"].get("isError")

            await until_async("an answer of a new process", answers)


async def test_without_the_right_token_every_call_is_refused_and_no_server_starts(tmp_path: Path) -> None:
    write_token(tmp_path, "another")
    async with gated(SDK_STDIO) as server:
        document = catalog("demo", server.endpoint, ["add"], credential=CREDENTIAL)
        async with running(tmp_path, document) as gateway:
            for _ in range(3):
                assert (await ask(gateway, calling("demo__add"))).refusal == "CONNECTION_LOST"

            async def none() -> bool:
                return server.servers == []

            await until_async("no process", none)


async def test_a_server_behind_an_event_stream_is_called_by_clients_of_both_eras(tmp_path: Path) -> None:
    async with sse_server() as url:
        document = catalog("demo", EventsEndpoint(url=url), ["add"], version=LEGACY)
        async with running(tmp_path, document) as gateway:
            for era in (LEGACY, "2026-07-28"):
                answer = await ask(gateway, calling("demo__add", {"a": 2, "b": 3}, era=era))
                assert answer.message["result"]["structuredContent"] == {"result": 5}
