"""Servers that run as child processes of the gateway."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from fairlead_api.documents.catalog import ChildEndpoint, DeclaredLatency
from fairlead_mcp.host import ChildHost
from forkserver import FORKED, start_server
from gatewayworld import LEGACY, MODERN, Ask, ask, calling, catalog, entry, running
from toolservers import (
    LEGACY_STDIO,
    SDK_STDIO,
)

ERAS = (MODERN, LEGACY)
SDK = ChildEndpoint(command=FORKED[0], args=(*FORKED[1:], SDK_STDIO))


@pytest.fixture(autouse=True, scope="module")
def forked_servers() -> None:
    start_server()


@pytest.mark.parametrize("script", [SDK_STDIO, LEGACY_STDIO])
@pytest.mark.parametrize("client", ERAS)
async def test_a_child_process_is_called_like_any_server(tmp_path: Path, script: str, client: str) -> None:
    tool, arguments = ("add", {"a": 2, "b": 3}) if script == SDK_STDIO else ("echo", {"text": "5"})
    child = SDK if script == SDK_STDIO else ChildEndpoint(command=sys.executable, args=(script,))
    children = ChildHost()
    try:
        demo = catalog("demo", child, [tool], version=MODERN if script == SDK_STDIO else LEGACY)
        async with running(tmp_path, demo, children=children, shared_children=False) as gateway:
            result = (await ask(gateway, calling(f"demo__{tool}", arguments, era=client))).message["result"]
            assert not result.get("isError")
            assert ("resultType" in result) is (client == MODERN)
            assert "5" in result["content"][0]["text"]
    finally:
        await children.aclose()


async def test_a_child_process_reports_progress(tmp_path: Path) -> None:
    children = ChildHost()
    try:
        demo = catalog("demo", SDK, ["progress"])
        async with running(tmp_path, demo, children=children, shared_children=False) as gateway:
            answer = await ask(gateway, calling("demo__progress", {"steps": 2}, progressToken="tok"))
            assert [e["params"]["progressToken"] for e in answer.events[:-1]] == ["tok", "tok"]
    finally:
        await children.aclose()


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
async def test_a_line_break_in_arguments_does_not_become_a_message_to_the_child(
    tmp_path: Path, era: str, end: str
) -> None:
    child = ChildEndpoint(command=sys.executable, args=(LEGACY_STDIO,))
    children = ChildHost()
    denied = json.dumps({"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": {"name": "die"}})
    try:
        demo = catalog("demo", child, ["echo", "seen"], version=LEGACY)
        async with running(tmp_path, demo, children=children, shared_children=False) as gateway:
            for more in ({}, {"progressToken": "p"}):
                made = calling("demo__echo", {"text": "HERE"}, era=era, **(more if era == MODERN else {}))
                body = json.dumps(made.message).replace('"HERE"', f"[{end}{denied}{end}]")
                answer = await ask(gateway, Ask(headers=made.headers, body=body.encode()))
                message = answer.events[-1] if answer.headers["content-type"] == "text/event-stream" else answer.message
                assert json.loads(message["result"]["content"][0]["text"]) == {"text": [json.loads(denied)]}
            seen = (await ask(gateway, calling("demo__seen"))).message["result"]["content"][0]["text"]
            assert seen.count("tools/call") == 3
    finally:
        await children.aclose()


async def test_a_child_that_cannot_start_is_connection_lost(tmp_path: Path) -> None:
    children = ChildHost()
    try:
        demo = catalog("demo", ChildEndpoint(command="/nowhere/at/all"), ["x"])
        async with running(tmp_path, demo, children=children, shared_children=False) as gateway:
            assert (await ask(gateway, calling("demo__x"))).refusal == "CONNECTION_LOST"
    finally:
        await children.aclose()


@pytest.mark.parametrize("session", ["Shared", "PerClient"])
async def test_a_tool_of_a_child_that_overruns_its_maximum_does_not_open_the_breaker_for_others(
    tmp_path: Path, session: str
) -> None:
    """The server uses the official SDK, which answers pings while a tool works."""
    child = ChildEndpoint(command=FORKED[0], args=(*FORKED[1:], "-m", "fairlead_cli.demo"))
    late = entry("forecast_demand", latency=DeclaredLatency(max_duration_ms=300))
    children = ChildHost()
    try:
        demo = catalog("demo", child, [late, "get_stock"], session=session)
        async with running(tmp_path, demo, children=children, shared_children=False) as gateway:
            good = calling("demo__get_stock", {"item": "bolt"})
            assert not (await ask(gateway, good)).message["result"].get("isError")
            for _ in range(7):
                call = calling("demo__forecast_demand", {"item": "bolt"})
                assert (await ask(gateway, call)).refusal == "TIMEOUT"
            assert not (await ask(gateway, good)).message["result"].get("isError")
    finally:
        await children.aclose()


async def test_a_gateway_that_runs_no_children_says_so(tmp_path: Path) -> None:
    async with running(tmp_path, catalog("demo", ChildEndpoint(command="x"), ["x"])) as gateway:
        answer = await ask(gateway, calling("demo__x"))
        assert answer.refusal == "CONNECTION_LOST"
        assert "child process" in answer.message["result"]["content"][0]["text"]
