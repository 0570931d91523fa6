"""Other proxies in front of the same upstream: how they are installed and started, or why they are not.

Used by `bench_gateway` with --peers. Each stands in a virtual environment (or folder) of its own below the user's
cache, made at the first time; nothing of it is a dependency of ours.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gateways import VERSIONS, Target
from harness import Goal, Sample, Unmeasurable, interleaved
from loadtools import Load, Outcome
from ports import free_port
from processes import Stage

if TYPE_CHECKING:
    from bench_gateway import Bench

HOME = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairlead" / "bench" / "peers"
CONNECTIONS = (1, 64)
WORKLOAD, ERA = "small JSON", "legacy"
MAX_ROUNDS = 3
VMCP = "github.com/stacklok/toolhive/cmd/vmcp"
VMCP_VERSIONS = ("latest", "v0.47.0")
"""The newest needs a newer compiler than some machines have: then the other. Either takes minutes to compile."""
FASTMCP = """
import sys
import uvicorn
from fastmcp import Client
from fastmcp.server import create_proxy

port, upstream, form = int(sys.argv[1]), sys.argv[2], sys.argv[3]
settings = dict(host="127.0.0.1", port=port, log_level="warning", access_log=False)


async def reuse():
    async with Client(upstream) as client:
        await uvicorn.Server(uvicorn.Config(create_proxy(client).http_app(path="/mcp"), **settings)).serve()


if form == "reuse":
    import uvloop

    uvloop.run(reuse())
else:
    uvicorn.run(create_proxy(upstream).http_app(path="/mcp"), **settings)
"""
"""One connected client for all calls (`reuse`), or what the documentation shows."""
VMCP_CONFIG = """name: bench
groupRef: bench
backends:
  - {name: up, url: "UPSTREAM", transport: streamable-http, type: entry}
incomingAuth: {type: anonymous}
outgoingAuth: {source: inline, default: {type: unauthenticated}}
aggregation:
  conflictResolution: prefix
  conflictResolutionConfig: {prefixFormat: "{workload}_"}
"""


@dataclass(frozen=True)
class Peer:
    """One product in one form. `command(stage, port, upstream URL)` starts it."""

    name: str
    command: Callable[[Stage, int, str], Sequence[str | Path]]
    tool: str
    upstream: int
    at_least: float | None = None
    """How many times its calls a second ours have to be."""

    def measure(self, bench: Bench) -> None:
        """Beside nginx and the gateway in the same rounds. What does not start or answers wrongly becomes a note."""
        port = free_port()
        words = list(self.command(bench.stage, port, f"http://127.0.0.1:{self.upstream}/mcp"))
        log = self.name.replace(" ", "-").replace("/", "-")
        process = bench.stage.start(log, words, core=bench.hop, env=environment())
        try:
            bench.stage.wait_listening(log, process, port, seconds=90)
            self._rounds(bench, Target(self.name, port, process.pid))
        except Unmeasurable as error:
            bench.notes.append(f"{self.name}: {' '.join(str(error).split())[-400:]}")
        finally:
            bench.stage.end(process)

    def _rounds(self, bench: Bench, peer: Target) -> None:
        window = (1.5, 0.5) if bench.settings.quick else (8.0, 2.0)
        for connections in CONNECTIONS:
            for number, target in interleaved([peer], min(bench.settings.rounds, MAX_ROUNDS)):
                load = Load(target.port, "/mcp", self.tool, VERSIONS[ERA], connections, *window)
                bench.run(WORKLOAD, ERA, connections, target, load, number)

    def goals(self, outcomes: dict[tuple[str, str, int, str], dict[int, Outcome]]) -> list[Goal]:
        """Our calls a second at the most connections, by round."""
        if self.at_least is None:
            return []
        mine = outcomes.get((WORKLOAD, ERA, CONNECTIONS[-1], "fairlead"), {})
        theirs = outcomes.get((WORKLOAD, ERA, CONNECTIONS[-1], self.name), {})
        value = None
        if mine and theirs:
            ours, peers_own = (Sample.of(o.calls_per_second for o in found.values()) for found in (mine, theirs))
            value = ours.median / peers_own.median
        return [Goal(f"calls/s against {self.name}", value, "× its", at_least=self.at_least)]


def environment() -> dict[str, str]:
    """Ours without what leads Python to our packages."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def peers(upstream: int, notes: list[str]) -> list[Peer]:
    """Those that can be had here; a note says why for the others."""
    found = []
    for name, make in (
        ("FastMCP", _fastmcp),
        ("mcp-proxy (PyPI)", _mcp_proxy),
        ("ToolHive vMCP", _vmcp),
        ("mcp-proxy (npm)", _npm_proxy),
    ):
        try:
            found += make(upstream)
        except Unmeasurable as error:
            notes.append(f"{name}: not measured, {error}")
    for name in ("ContextForge", "LiteLLM"):
        notes.append(f"{name}: not measured, it needs a database and an account of its own to be set up first")
    return found


def _fastmcp(upstream: int) -> list[Peer]:
    python = venv("fastmcp", "fastmcp", "uvloop") / "python"

    def command(form: str) -> Callable[[Stage, int, str], Sequence[str | Path]]:
        def started(stage: Stage, port: int, url: str) -> Sequence[str | Path]:
            file = stage.folder / "fastmcp_proxy.py"
            file.write_text(FASTMCP)
            return [python, file, str(port), url, form]

        return started

    return [
        Peer("FastMCP proxy, as documented", command("url"), "echo", upstream, 500),
        Peer("FastMCP proxy, one client", command("reuse"), "echo", upstream, 80),
    ]


def _mcp_proxy(upstream: int) -> list[Peer]:
    program = venv("mcp-proxy", "mcp-proxy") / "mcp-proxy"

    def command(stage: Stage, port: int, url: str) -> Sequence[str | Path]:
        inner: list[str | Path] = [program, "--log-level", "WARNING", "--transport", "streamablehttp", url]
        return [program, "--port", str(port), "--log-level", "WARNING", "--", *inner]

    return [Peer("mcp-proxy (PyPI)", command, "echo", upstream)]


def _vmcp(upstream: int) -> list[Peer]:
    folder = HOME / "toolhive"
    program = folder / "vmcp"
    if not program.exists():
        if (go := shutil.which("go")) is None:
            raise Unmeasurable("it is compiled from its Go module and there is no Go here")
        errors = []
        for version in VMCP_VERSIONS:
            done = run([go, "install", f"{VMCP}@{version}"], 3600, GOBIN=str(folder))
            if done is None:
                break
            errors.append(done)
        else:
            raise Unmeasurable(f"it does not compile: {errors[0]}")

    def command(stage: Stage, port: int, url: str) -> Sequence[str | Path]:
        config = stage.folder / "vmcp.yaml"
        config.write_text(VMCP_CONFIG.replace("UPSTREAM", url))
        return [program, "serve", "-c", config, "--host", "127.0.0.1", "--port", str(port)]

    return [Peer("ToolHive vMCP", command, "up_echo", upstream, 15)]


def _npm_proxy(upstream: int) -> list[Peer]:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise Unmeasurable("there is no Node here")
    folder = HOME / "npm"
    modules = folder / "node_modules"
    if not (modules / ".bin" / "mcp-proxy").exists():
        folder.mkdir(parents=True, exist_ok=True)
        complaint = run(
            [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), "mcp-proxy", "supergateway"], 600
        )
        if complaint is not None:
            raise Unmeasurable(f"npm does not install it: {complaint}")

    def command(stage: Stage, port: int, url: str) -> Sequence[str | Path]:
        inner: list[str | Path] = [
            node,
            modules / "supergateway" / "dist" / "index.js",
            "--streamableHttp",
            url,
            "--logLevel",
            "none",
        ]
        words: list[str | Path] = [node, modules / ".bin" / "mcp-proxy", "--host", "127.0.0.1", "--port", str(port)]
        return [*words, "--server", "stream", "--", *inner]

    return [Peer("mcp-proxy (npm)", command, "echo", upstream)]


def venv(name: str, *packages: str) -> Path:
    """The programs of a virtual environment with those packages of PyPI. Raises Unmeasurable."""
    folder = HOME / name
    programs = folder / "bin"
    if (programs / packages[0]).exists():
        return programs
    for words in ([sys.executable, "-m", "venv", str(folder)], [str(programs / "pip"), "install", "-q", *packages]):
        complaint = run(words, 900)
        if complaint is not None:
            raise Unmeasurable(f"it does not install: {complaint}")
    return programs


def run(words: Sequence[str], seconds: float, **more: str) -> str | None:
    """The end of what it complains of; None where all went well."""
    HOME.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=seconds, env={**environment(), **more}, cwd=HOME
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)[-300:]
    return None if done.returncode == 0 else " ".join(done.stderr.split())[-300:]
