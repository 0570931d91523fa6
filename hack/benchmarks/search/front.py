"""`/router/mcp` beside the same two tools by FastMCP: calls a second and processor time of a call.

Both have 1,000 tools, and then 20, in front of the same upstream, and are called in windows that follow each other. The
client is Python, with one connection: what it takes bounds the calls a second, most of all those of the faster one;
processor time is that of the processes which answer, and has none of the client in it. FastMCP's search goes through
all tools at each call, of either tool; with 20 of them little is left but the framework.
"""

from __future__ import annotations

import http.client
import json
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairlead_api.documents.codec import catalog_name, encode
from fairlead_api.meta import ServerKey
from gateway.gateways import ECHO, VERSIONS, catalog, entry, gateway_over, start_upstream
from ports import free_port
from rig.definitions import definition
from rig.harness import Goal, Report, Sample, Settings, Unmeasurable, interleaved, ratios
from rig.processes import Stage, cores, cpu_time

ERA: Final = "modern"
TOOLS: Final = (1_000, 20)
SECONDS, WARMUP = 2.0, 0.5
OURS, THEIRS = "/router/mcp", "FastMCP"
ECHO_TOOL: Final = f"{ERA}__echo"
QUERY: Final = "create an issue"
CALLS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "search_tools": ({"query": QUERY}, "inputSchema"),
    "execute_tool": ({"name": ECHO_TOOL, "arguments": {"text": "the keel is of oak"}}, "the keel is of oak"),
}
"""Arguments of each tool, and a text that a correct answer contains."""

META: Final = {
    "io.modelcontextprotocol/protocolVersion": VERSIONS[ERA],
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass(frozen=True)
class Window:
    """Results of one front."""

    calls_per_second: float
    p50_us: float
    cpu_us: float
    """Processor time per call of all processes that answer, in microseconds."""


class Client:
    """One persistent connection to `path` at a port."""

    def __init__(self, port: int, path: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._path = path

    def call(self, tool: str) -> None:
        """Call a tool of `CALLS`. Raises Unmeasurable if the answer is wrong."""
        arguments, expected = CALLS[tool]
        params = {"name": tool, "arguments": arguments, "_meta": META}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        headers |= {"mcp-protocol-version": VERSIONS[ERA], "mcp-method": "tools/call", "mcp-name": tool}
        self._connection.request("POST", self._path, body.encode(), headers)
        answer = self._connection.getresponse()
        text = answer.read().decode("utf-8", "replace")
        if answer.status != 200 or '"isError":true' in text.replace(" ", "") or expected not in text:
            raise Unmeasurable(f"{tool} at {self._path} answered {answer.status}: {text[:300]}")


def measured(client: Client, tool: str, pid: int, seconds: float) -> Window:
    """Make calls of a tool one after the other, over a new connection. Raises Unmeasurable."""
    until = time.monotonic() + WARMUP
    while time.monotonic() < until:
        client.call(tool)
    spent: list[float] = []
    before, begun = cpu_time(pid).total, time.monotonic()
    while (now := time.monotonic()) < begun + seconds:
        client.call(tool)
        spent.append(time.monotonic() - now)
    lasted, cpu = time.monotonic() - begun, cpu_time(pid).total - before
    return Window(len(spent) / lasted, sorted(spent)[len(spent) // 2] * 1e6, cpu / len(spent) * 1e6)


def front(report: Report, settings: Settings) -> None:
    """Rows for each number of tools. Raises Unmeasurable."""
    for count in TOOLS:
        compared(count, report, settings)


def compared(count: int, report: Report, settings: Settings) -> None:
    """One row for each front and tool, and ratios within a round. Raises Unmeasurable."""
    hop, rest = cores()
    rng = random.Random(7)
    tools = [definition(index, rng) for index in range(count)]
    with Stage() as stage:
        upstream = start_upstream(stage, "upstream", rest)
        documents = stage.folder / "documents"
        documents.mkdir()
        many = tuple(entry(tool["name"], json.dumps(tool).encode()) for tool in tools)
        for name, more in (("", ()), ("many", many)):
            key = ServerKey("default", name or ERA)
            made = catalog(ERA, upstream.port, name=name, tools=more)
            (documents / f"{catalog_name(key)}.json").write_bytes(encode(made))
        gateway = gateway_over(stage, documents, hop, FAIRLEAD_EMBEDDER="none")
        listed = stage.folder / "definitions.json"
        listed.write_text(json.dumps([*tools, {**json.loads(ECHO), "name": ECHO_TOOL}]))
        port, script = free_port(), Path(__file__).with_name("fastmcp_front.py")
        theirs = stage.start("fastmcp", [sys.executable, script, str(port), str(upstream.port), listed], core=hop)
        stage.wait_listening("fastmcp", theirs, port)
        fronts = {OURS: (gateway.port, OURS, gateway.pid), THEIRS: (port, "/mcp", theirs.pid)}
        windows_by_case: dict[tuple[str, str], dict[int, Window]] = {
            (tool, name): {} for tool in CALLS for name in fronts
        }
        for number, (tool, name) in interleaved([*windows_by_case], settings.rounds):
            at, path, pid = fronts[name]
            windows_by_case[tool, name][number] = measured(
                Client(at, path), tool, pid, 0.5 if settings.quick else SECONDS
            )
    for (tool, name), windows in windows_by_case.items():
        cpu = {index: window.cpu_us for index, window in windows.items()}
        other = {index: window.cpu_us for index, window in windows_by_case[tool, THEIRS].items()}
        less = ratios(other, cpu)
        report.rows.append(
            {
                "tools": count,
                "called": tool,
                "front": name,
                "calls/s, 1 connection": Sample.of(window.calls_per_second for window in windows.values()),
                "p50 µs": Sample.of(window.p50_us for window in windows.values()),
                "CPU µs/call": Sample.of(window.cpu_us for window in windows.values()),
                "FastMCP's CPU / this": less,
            }
        )
        if name == OURS:
            value = None if less is None else less.median
            report.goals.append(
                Goal(f"FastMCP's processor time of {tool} beside ours, {count:,} tools", value, "×", at_least=1)
            )
