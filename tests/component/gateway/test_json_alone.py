"""Clients that accept only JSON, although MCP requires event streams too: they get most answers as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from askers import LegacyAsker, session_of
from gatewayworld import BOTH, LEGACY, MODERN, Ask, Wire, ask, calling, catalog, legacy, modern, running
from rawserver import raw_server
from toolservers import legacy_server, sdk_server, tool

ERAS = [MODERN, LEGACY]


def with_json_alone(request: Ask) -> Ask:
    return request.with_headers(accept="application/json")


def call_with_progress(era: str, number: int = 1) -> Ask:
    """A call of a tool that reports progress if the request has a progress token."""
    request = calling("demo__progress", {"steps": 2}, era=era, number=number)
    request.message["params"].setdefault("_meta", {})["progressToken"] = "tok"
    return request


@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("server_era", ERAS)
async def test_a_call_of_a_client_that_accepts_json_alone_is_answered_by_json(
    tmp_path: Path, client: str, server_era: str
) -> None:
    async with sdk_server() as url:
        document = catalog("demo", url, ["progress"], version=server_era)
        async with running(tmp_path, document) as gateway, await Wire.connect(gateway) as wire:
            for number in (1, 2, 3):
                answer = await wire.ask(with_json_alone(call_with_progress(client, number)))
                assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
                assert (answer.message["id"], answer.message["result"]["isError"]) == (number, False)


@pytest.mark.parametrize("era", ERAS)
async def test_clients_with_and_without_streams_may_share_a_connection(tmp_path: Path, era: str) -> None:
    async with (
        sdk_server() as url,
        running(tmp_path, catalog("demo", url, ["progress"])) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        for accept, kind in [("application/json", "application/json"), (BOTH, "text/event-stream")] * 2:
            answer = await wire.ask(call_with_progress(era).with_headers(accept=accept))
            assert answer.headers["content-type"] == kind


async def test_a_server_that_answers_by_events_is_read_for_a_client_of_json(tmp_path: Path) -> None:
    async with legacy_server([tool("add")], stream=True) as server:
        document = catalog("demo", server.url, ["add"], version=LEGACY)
        async with running(tmp_path, document) as gateway:
            for era in ERAS:
                answer = await ask(gateway, with_json_alone(calling("demo__add", era=era)))
                assert (answer.status, answer.headers["content-type"]) == (200, "application/json")


async def test_a_stream_for_a_client_of_json_alone_is_refused_with_what_to_do(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        listening = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, number=7)
        answer = await ask(gateway, with_json_alone(listening))
        assert (answer.status, answer.message["id"]) == (406, 7)
        assert "Accept: text/event-stream" in answer.message["error"]["message"]


async def test_a_server_that_would_ask_a_client_of_json_alone_is_told_so(tmp_path: Path) -> None:
    asker = LegacyAsker()
    async with (
        raw_server(asker.handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        session = await session_of(gateway, {"elicitation": {}})
        call = legacy("tools/call", {"name": "demo__x", "arguments": {}}, session=session)
        answer = await ask(gateway, with_json_alone(call))
        (told,) = json.loads(answer.message["result"]["content"][0]["text"])
        assert told["message"] == "The client has no open stream on which the gateway can send it this request"
