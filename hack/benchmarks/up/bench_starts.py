"""Starts and memory at rest: commands, `fairlead up` to its first answer, a gateway with 1,000 servers' documents.

All are new processes, with bytecode there. Commands ask a running `fairlead up`, which has one server of the standard
library, so that no start of an SDK or a package counts.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, Final

from gateway.gateways import SERVERS, catalog, contents, gateway_over, start_upstream, world, write_documents
from gateway.heaps import footprint_of, metrics_of
from gatewayworld import Ask, calling, modern
from ports import free_port
from rig.harness import Goal, Report, Sample, Settings, Unmeasurable, in_rounds
from rig.idle_connections import WAIT_SECONDS, Post, bytes_of_connection
from rig.processes import Stage, cpu_time, memory
from upprocess import PLAIN

PARTS: Final = ("commands", "up", "pod", "memory")
TOOL: Final = "demo__echo"
COMMANDS: Final = ("servers", "tools", "tiers", "scores", "search echo", f"explain {TOOL}", f"call {TOOL}", "version")
POD_SERVERS: Final = 1_000
FEW_SERVERS: Final = 3
IDLE_CONNECTIONS: Final = 10_000
TOOLS_CALLED: Final = "MCP process with 1,000 tools called"
CLOSED_CONNECTION: Final = "closed connection, of the memory of an idle one"
POLL_SECONDS: Final = 0.005


def run(settings: Settings) -> Report:
    """A row and a goal for each figure. Raises Unmeasurable."""
    settings.check_parts(PARTS)
    figures: dict[str, list[float]] = {}
    report = Report("starts")
    for _ in in_rounds(settings.rounds):
        with Stage() as stage:
            if settings.wants("commands") or settings.wants("up"):
                add(figures, of_a_laptop(stage, commands=settings.wants("commands")))
            if settings.wants("pod"):
                add(figures, of_a_pod(stage))
            if settings.wants("memory"):
                add(figures, of_memory(stage, 1_000 if settings.quick else IDLE_CONNECTIONS))
    bounds: dict[str, tuple[str, float | None]] = {
        "fairlead --help": ("s", 0.15),
        "up, first tool listed": ("s", 0.7),
        "up, first call answered": ("s", 1.5),
        f"gateway with {POD_SERVERS:,} servers, ready": ("s", 1.5),
        f"MCP process with {FEW_SERVERS} servers": ("MB", 52),
        TOOLS_CALLED: ("MB", 70),
        "idle connection": ("kB", 6),
        CLOSED_CONNECTION: ("kB", None),
    }
    for name, values in figures.items():
        unit, most = bounds.get(name, ("s", 0.35 if name.startswith("fairlead ") else None))
        sample = Sample.of(values)
        report.rows.append({"figure": name, "unit": unit, "measured": sample})
        if most is not None:
            report.goals.append(Goal(name, sample.median, unit, at_most=most))
    return report


def add(figures: dict[str, list[float]], measured: dict[str, float]) -> None:
    """Append one round's figures."""
    for name, value in measured.items():
        figures.setdefault(name, []).append(value)


def of_a_laptop(stage: Stage, *, commands: bool) -> dict[str, float]:
    """Seconds of `fairlead up` and of commands beside it. Raises Unmeasurable."""
    port = free_port()
    file = stage.folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"demo": {"command": PLAIN[0], "args": PLAIN[1:]}}}))
    environment = {**os.environ, "FAIRLEAD_URL": f"http://127.0.0.1:{port}/mcp", "HOME": str(stage.folder)}
    words: list[str | Path] = [
        sys.executable,
        "-m",
        "fairlead_cli",
        "up",
        file,
        "--port",
        str(port),
        "--metrics-port",
        "0",
    ]
    begun = time.perf_counter()
    up = stage.start("up", words, core=None, env=environment)
    figures = {"up, first tool listed": until(begun, lambda: TOOL in named(result_of(port, modern("tools/list"))))}
    answer = result_of(port, calling(TOOL))
    if "content" not in answer:
        raise Unmeasurable(f"the call was refused: {answer}")
    figures["up, first call answered"] = time.perf_counter() - begun
    figures["up, processor time until then"] = cpu_time(up.pid).total
    if commands:
        figures["fairlead --help"] = command("--help", environment)
        figures |= {f"fairlead {words}": command(words, environment) for words in COMMANDS}
    stage.end(up)
    return figures


def of_a_pod(stage: Stage) -> dict[str, float]:
    """Seconds from the start of a gateway's process until it is ready. Raises Unmeasurable."""
    documents = stage.folder / "documents"
    catalogs = [
        catalog("modern", 1, name=f"{each.name}-{number}", tools=each.tools[1:])
        for number in range(POD_SERVERS // SERVERS)
        for each in islice(world({"plain": 1}), SERVERS)
    ]
    write_documents(documents, contents(catalogs))
    gateway_over(stage, documents, None, name="warm")  # makes its bytecode, as the image has it
    begun = time.perf_counter()
    gateway_over(stage, documents, None, name="pod")
    return {f"gateway with {len(catalogs):,} servers, ready": time.perf_counter() - begun}


def of_memory(stage: Stage, connections: int) -> dict[str, float]:
    """RAM of a gateway's process with few servers, with 1,000 tools that were called, and of a connection that has made
    one call, and what stays of it once closed. Raises Unmeasurable.
    """
    upstream = start_upstream(stage, "upstream", 0)
    documents = stage.folder / "few"
    write_documents(documents, contents([catalog("modern", upstream.port, name=f"s{n}") for n in range(FEW_SERVERS)]))
    gateway = gateway_over(stage, documents, None, name="few", FAIRLEAD_CLIENT_CONNECTIONS=str(2 * IDLE_CONNECTIONS))
    figures = {f"MCP process with {FEW_SERVERS} servers": footprint_of(gateway).serving / 1e6}
    call = calling("s0__echo", {"text": "a"})
    post = Post(gateway.port, "/mcp", json.dumps(call.message).encode(), dict(call.headers))
    with ExitStack() as stack:
        each = bytes_of_connection(gateway.pid, post, connections, stack)
        opened = memory(gateway.pid).now
    figures["idle connection"] = each / 1e3
    until(time.perf_counter(), lambda: metrics_of(gateway)["fairlead_client_connections"] == 0)
    figures[CLOSED_CONNECTION] = each / 1e3 - (opened - memory(gateway.pid).now) / connections / 1e3
    figures[TOOLS_CALLED] = of_called_tools(stage, upstream.port)
    return figures


def of_called_tools(stage: Stage, port: int) -> float:
    """RAM, in MB, of a gateway's process after one call of each of 1,000 tools. Raises Unmeasurable."""
    documents = stage.folder / "many"
    catalogs = list(world({"plain": port}))
    write_documents(documents, contents(catalogs))
    gateway = gateway_over(stage, documents, None, name="many")
    names = [f"{each.prefix}__{tool.name}" for each in catalogs for tool in each.tools]
    refused = [name for name in names if "content" not in result_of(gateway.port, calling(name, {"text": "a"}))]
    if refused:
        raise Unmeasurable(f"{len(refused)} of {len(names)} calls were refused: {refused[0]}")
    return footprint_of(gateway).serving / 1e6


def result_of(port: int, request: Ask) -> dict[str, Any]:
    """The result of a request; empty while nobody listens, or if it was refused."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)
    try:
        connection.request("POST", "/mcp", json.dumps(request.message), dict(request.headers))
        text = connection.getresponse().read()
    except OSError:
        return {}
    finally:
        connection.close()
    return dict(json.loads(text).get("result", {}))


def named(result: dict[str, Any]) -> set[str]:
    """Names of listed tools."""
    return {tool["name"] for tool in result.get("tools", ())}


def until(begun: float, done: Callable[[], bool]) -> float:
    """Seconds since `begun` when something is the case. Raises Unmeasurable if it is not in time."""
    while not done():
        if time.perf_counter() > begun + WAIT_SECONDS:
            raise Unmeasurable(f"no tool is listed within {WAIT_SECONDS:g} s")
        time.sleep(POLL_SECONDS)
    return time.perf_counter() - begun


def command(words: str, environment: dict[str, str]) -> float:
    """Seconds of one command. Raises Unmeasurable if it fails."""
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        ended = subprocess.run(
            [sys.executable, "-m", "fairlead_cli", *words.split()],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            check=False,
            timeout=WAIT_SECONDS,
        )
        seconds = time.perf_counter() - begun
    if ended.returncode:
        raise Unmeasurable(f"fairlead {words}: {ended.stderr.decode(errors='replace')[-300:]}")
    return seconds
