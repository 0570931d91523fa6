"""Calls whose server first has to start a process: the start does not count towards the tool's time limit."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.documents.catalog import ChildEndpoint, CredentialRef, DeclaredLatency
from fairlead_api.reports import OK, Attempt
from fairlead_app.gateway import Gateway
from fairlead_mcp.host import ChildHost
from gated_stdio_server import CREDENTIAL, gated, write_token
from gatewayworld import LEGACY, MODERN, Ask, ask, calling, catalog, entry, limits, running
from toolservers import LEGACY_STDIO, broken_server

MAX_MS = 300
SHORT = DeclaredLatency(max_duration_ms=MAX_MS)
WAIT_FOR_FILE = """
import pathlib, runpy, sys, time
while not pathlib.Path({go!r}).exists():
    time.sleep(0.01)
runpy.run_path({server!r}, run_name="__main__")
"""


@dataclass
class SlowServer:
    """A gateway with a server `demo` whose processes start only after `go` is called."""

    gateway: Gateway
    file: Path

    def go(self) -> None:
        self.file.touch()

    def attempts(self, tool: str) -> list[Attempt]:
        """Latency samples of a tool of `demo`."""
        gateway = self.gateway
        samples = gateway.outbox.samples.since(0, gateway.endpoint.clock(), 0.0)
        return [each for history, attempts in samples if history.tool == tool for each in attempts]


@contextlib.asynccontextmanager
async def slow_server(folder: Path, holder: str, session: str, **settings: Any) -> AsyncIterator[SlowServer]:
    """`holder`: which program starts the processes. `session`: `spec.session` of the McpServer."""
    write_token(folder)
    script = folder / "server.py"
    script.write_text(WAIT_FOR_FILE.format(go=str(folder / "go"), server=LEGACY_STDIO))
    settings.setdefault("limits", limits())
    async with contextlib.AsyncExitStack() as stack:
        endpoint: Any = ChildEndpoint(command=sys.executable, args=(str(script),))
        reference: CredentialRef | None = None
        children = ChildHost()
        stack.push_async_callback(children.aclose)
        if holder == "listener":
            endpoint, reference = (await stack.enter_async_context(gated(str(script)))).endpoint, CREDENTIAL
        tools = [entry(name, latency=SHORT) for name in ("echo", "later")]
        demo = catalog("demo", endpoint, tools, session=session, version=LEGACY, credential=reference, **settings)
        silent = await stack.enter_async_context(broken_server("never"))
        other = catalog("other", silent.url, [entry("never", latency=SHORT)])
        gateway = await stack.enter_async_context(running(folder, demo, other, children=children))
        yield SlowServer(gateway, folder / "go")


ECHO = calling("demo__echo", {"text": "x"}, era=MODERN)
NEVER = calling("other__never", {}, era=MODERN)
LATER = calling("demo__later", {"n": 99}, era=MODERN)


async def outlast(slow: SlowServer, request: Ask) -> asyncio.Task[Any]:
    """Send a request, and wait until it has taken longer than the tool's time limit."""
    call = asyncio.ensure_future(ask(slow.gateway, request))
    assert (await ask(slow.gateway, NEVER)).refusal == "TIMEOUT"
    return call


@pytest.mark.parametrize("session", ["PerClient", "Shared"])
@pytest.mark.parametrize("holder", ["child", "listener"])
async def test_the_start_of_a_process_is_not_part_of_the_time_that_a_tool_may_take(
    tmp_path: Path, holder: str, session: str
) -> None:
    async with slow_server(tmp_path, holder, session) as slow:
        clock = slow.gateway.endpoint.clock
        began = clock()
        call = await outlast(slow, ECHO)
        waited_ms = (clock() - began) * 1000
        assert slow.attempts("echo") == []
        slow.go()
        answer = await call
        assert answer.message["result"].get("isError", False) is False
        (attempt,) = slow.attempts("echo")
        assert attempt.outcome == OK
        assert attempt.duration_ms <= (clock() - began) * 1000 - waited_ms


@pytest.mark.parametrize("holder", ["child", "listener"])
async def test_a_tool_has_its_own_time_once_the_process_has_started(tmp_path: Path, holder: str) -> None:
    async with slow_server(tmp_path, holder, "PerClient") as slow:
        call = await outlast(slow, LATER)
        slow.go()
        answer = await call
        assert answer.refusal == "TIMEOUT"
        assert "later of default/demo did not answer within 0.3 s, the maximum of the tool" in answer.body.decode()


@pytest.mark.parametrize("holder", ["child", "listener"])
async def test_a_process_that_does_not_start_ends_its_call_at_the_limit_of_the_server(
    tmp_path: Path, holder: str
) -> None:
    async with slow_server(tmp_path, holder, "PerClient", limits=limits(timeout_ms=2 * MAX_MS)) as slow:
        answer = await ask(slow.gateway, ECHO)
        assert answer.refusal == "TIMEOUT"
        assert "is still starting" in answer.body.decode()
        (attempt,) = slow.attempts("echo")
        assert attempt.outcome != OK
        assert attempt.duration_ms > MAX_MS
