"""`fairlead up` as a separate process, as users run it, and its output of JSON lines.

    async with fairlead_up(folder) as up:
        await up.ready("default/demo")
        ... up.url ...

The process uses free ports. It is stopped at the end, and killed if it does not stop.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from mcp import Client

from forkserver import FORKED, ForkedProcess, can_fork, fork_command
from waiting import until_async

Event = dict[str, Any]
WAIT_SECONDS: Final = 30.0
DEMO: Final = [*FORKED, "-m", "fairlead_cli.demo"]
PLAIN: Final = [sys.executable, str(Path(__file__).parent / "stdio_servers" / "legacy_stdio.py")]
"""A server without the SDK, whose import takes most of the demo's start. For tests that can use any server."""
PLAIN_TOOLS: Final = ["ask", "changed", "die", "echo", "later", "seen"]
MARKING: Final = [sys.executable, str(Path(__file__).parent / "stdio_servers" / "marking_stdio.py")]
"""A server with one tool, `mark(file, seconds)`."""
DEMO_TOOLS: Final = ["ask_supplier", "forecast_demand", "get_stock", "search_orders"]


def in_state(name: str, state: str) -> Callable[[Event], bool]:
    """Whether an event says that a server is in a state."""
    return lambda event: (event["event"], event.get("server"), event.get("state")) == ("server", name, state)


class Up:
    """One running process."""

    def __init__(self, process: ForkedProcess | asyncio.subprocess.Process) -> None:
        self.process = process
        self.events: list[Event] = []
        self.url = ""
        self.metrics = ""

    @property
    def pid(self) -> int:
        return self.process.pid

    async def event(self, wanted: Callable[[Event], bool], *, within: float = WAIT_SECONDS) -> Event:
        """Wait for the next event for which `wanted` is true. Raises AssertionError with all events seen instead."""
        seen = len(self.events)
        try:
            async with asyncio.timeout(within):
                while True:
                    event = await self._next()
                    if wanted(event):
                        return event
        except TimeoutError:
            raise AssertionError(f"nothing of the kind within {within:g} s, but {self.events[seen:]}") from None

    async def events_in_any_order(self, *wanted: Callable[[Event], bool]) -> list[Event]:
        """Wait for the next event of each kind in `wanted`. Returns the events in the order of `wanted`.

        Two calls of `event` need the order of the events: the first drops those that it does not wait for.
        """
        events: dict[int, Event] = {}
        while len(events) < len(wanted):
            event = await self.event(lambda event: any(each(event) for each in wanted))
            for number, each in enumerate(wanted):
                if number not in events and each(event):
                    events[number] = event
        return [events[number] for number in range(len(wanted))]

    async def server(self, name: str, state: str, *, within: float = WAIT_SECONDS) -> Event:
        """Wait until a server is in a state."""
        return await self.event(in_state(name, state), within=within)

    async def ready(self, name: str, *, within: float = WAIT_SECONDS) -> Event:
        """Wait until a server is ready, and the gateway has its catalog."""
        event = await self.server(name, "ready", within=within)
        await self._until_in_gateway(name)
        return event

    async def states(self, servers: int) -> dict[str, str]:
        """Wait for the states of this number of servers: `ready:`, or `failed:` and the cause."""
        states: dict[str, str] = {}
        while len(states) < servers:
            event = await self.event(lambda event: event.get("state") in ("ready", "failed"))
            states[event["server"]] = event["state"] + ":" + event.get("cause", "")
            if event["state"] == "ready":
                await self._until_in_gateway(event["server"])
        return states

    async def _until_in_gateway(self, name: str) -> None:
        """Wait until the gateway has the catalog of a ready server, which it reads shortly after the operator's report.
        No-op where the address of the metrics is unknown.
        """
        series = f'fairlead_server_up{{fairlead_server="{name}"}}'

        async def is_in_gateway() -> bool:
            return series in await asyncio.to_thread(_fetch, self.metrics)

        if self.metrics:
            await until_async(f"the catalog of {name} in the gateway", is_in_gateway)

    async def wait_for_end(self, within: float = WAIT_SECONDS) -> int:
        """Wait for the end of the process. Returns its exit code."""
        async with asyncio.timeout(within):
            return await self.process.wait()

    async def errors(self) -> str:
        """Standard error of the process, after its end."""
        assert self.process.stderr is not None
        return (await self.process.stderr.read()).decode()

    async def _next(self) -> Event:
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        if not line:
            raise AssertionError(f"fairlead up ended: {await self.errors()}")
        event: Event = json.loads(line)
        self.events.append(event)
        return event


@asynccontextmanager
async def started_up(*words: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> AsyncIterator[Up]:
    """Start the process with exactly these arguments, and do not wait for anything."""
    process: ForkedProcess | asyncio.subprocess.Process
    environment = {**os.environ, **(env or {})}
    if can_fork(environment):
        process = await fork_command("up", *map(str, words), cwd=cwd, env=environment)
        process.close_stdin()
    else:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "fairlead_cli",
            "up",
            *map(str, words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=cwd,
            env=environment,
            limit=1 << 22,
        )
    up = Up(process)
    try:
        yield up
    finally:
        await _end(process)


@asynccontextmanager
async def fairlead_up(*words: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> AsyncIterator[Up]:
    """Start the process on free ports, and wait until it listens."""
    arguments = (*words, "--port", "0", "--metrics-port", "0", "--output", "json")
    async with started_up(*arguments, cwd=cwd, env=env) as up:
        listening = await up.event(lambda event: event["event"] == "listening")
        up.url = listening["url"]
        up.metrics = listening["metrics"]
        yield up


async def until_listed(url: str, *servers: str) -> None:
    """Wait until the gateway lists tools of each server, which happens shortly after the operator has reported them."""

    async def is_listed() -> bool:
        async with Client(url) as client:
            tools = (await client.list_tools()).tools
        return {tool.name.partition("__")[0] for tool in tools} >= {*servers}

    await until_async(f"tools of {', '.join(servers)}", is_listed)


def _fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=WAIT_SECONDS) as answer:
        text: str = answer.read().decode()
        return text


async def _end(process: ForkedProcess | asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(20):
                await asyncio.gather(process.wait(), *(_drain(s) for s in (process.stdout, process.stderr)))
        except TimeoutError:
            process.kill()
    await asyncio.gather(process.wait(), *(_drain(stream) for stream in (process.stdout, process.stderr)))


async def _drain(stream: asyncio.StreamReader | None) -> None:
    if stream is not None:
        while await stream.read(1 << 16):
            pass


def children_of(pid: int) -> list[int]:
    """Running processes below `pid`, at any depth."""
    pids: list[int] = []
    pending = [pid]
    while pending:
        for file in Path(f"/proc/{pending.pop()}/task").glob("*/children"):
            try:
                below = [int(child) for child in file.read_text().split()]
            except OSError:
                continue
            pids += below
            pending += below
    return pids


def command_of(pid: int) -> str:
    """Command line of a process; empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def alive(pid: int) -> bool:
    """Whether a process runs. A zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


async def all_dead(pids: list[int], within: float) -> list[int]:
    """Wait until all these processes have ended. Returns those that still run after `within` seconds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + within
    while True:
        left = [pid for pid in pids if alive(pid)]
        if not left or loop.time() >= end:
            return left
        await asyncio.sleep(0.02)


def manifest(name: str, *command: str, **spec: Any) -> str:
    """Manifest of an McpServer with a local command, as YAML (JSON is valid YAML)."""
    document = {
        "apiVersion": "fairlead.dev/v1alpha1",
        "kind": "McpServer",
        "metadata": {"name": name},
        "spec": {"command": list(command), **spec},
    }
    return f"---\n{json.dumps(document)}\n"
