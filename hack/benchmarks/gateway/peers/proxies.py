"""Other proxies in front of the same upstream, or the reason why one is not available."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from gateway.peers.peer import HOME, Door, Peer, run, venv
from gateway.peers.platforms import contextforge, litellm
from rig.harness import Unmeasurable
from rig.processes import Stage

VMCP = "github.com/stacklok/toolhive/cmd/vmcp"
VMCP_VERSIONS = ("latest", "v0.47.0")
"""The newest needs Go 1.27, as all from v0.55 on do; v0.47.0 is the last for Go 1.26. Both take minutes."""
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
RUST_PROXY = "0.6.0"
"""Version of the crate mcp-proxy."""
RUST_CONFIG = """[proxy]
name = "bench"
separator = "/"

[proxy.listen]
host = "127.0.0.1"
port = PORT

[[backends]]
name = "up"
transport = "http"
url = "UPSTREAM"
"""
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


def _fastmcp() -> list[Peer]:
    python = venv("fastmcp", "fastmcp", "uvloop") / "python"

    def command(form: str) -> Callable[[Stage, int, str], Sequence[str | Path]]:
        def started(stage: Stage, port: int, url: str) -> Sequence[str | Path]:
            file = stage.folder / "fastmcp_proxy.py"
            file.write_text(FASTMCP)
            return [python, file, str(port), url, form]

        return started

    return [
        Peer("FastMCP proxy, as documented", command("url"), "echo", 500, slow=True),
        Peer("FastMCP proxy, one client", command("reuse"), "echo", 80),
    ]


def _mcp_proxy() -> list[Peer]:
    program = venv("mcp-proxy", "mcp-proxy") / "mcp-proxy"

    def command(stage: Stage, port: int, url: str) -> Sequence[str | Path]:
        inner: list[str | Path] = [program, "--log-level", "WARNING", "--transport", "streamablehttp", url]
        return [program, "--port", str(port), "--log-level", "WARNING", "--", *inner]

    return [Peer("mcp-proxy (PyPI)", command, "echo")]


def _rust_proxy() -> list[Peer]:
    """Measured with every kind of client that it serves. Compiling it takes ten minutes and more."""
    folder = HOME / "rust-mcp-proxy"
    program = folder / "bin" / "mcp-proxy"
    if not program.exists():
        if (cargo := shutil.which("cargo")) is None:
            raise Unmeasurable("it is compiled from its crate and there is no cargo here")
        words = [cargo, "install", "--locked", "mcp-proxy", "--version", RUST_PROXY, "--root", str(folder)]
        if (complaint := run(words, 7200)) is not None:
            raise Unmeasurable(f"it does not compile: {complaint}")

    def command(stage: Stage, port: int, url: str) -> Sequence[str | Path]:
        config = stage.folder / f"mcp-proxy-{port}.toml"
        config.write_text(RUST_CONFIG.replace("PORT", str(port)).replace("UPSTREAM", url))
        return [program, "--config", config]

    door = Door("/")
    return [Peer("mcp-proxy (Rust)", command, "up/echo", 4, every_row=True, enter=lambda port, url: door)]


def _vmcp() -> list[Peer]:
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

    return [Peer("ToolHive vMCP", command, "up_echo", 15)]


def _npm_proxy() -> list[Peer]:
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

    return [Peer("mcp-proxy (npm)", command, "echo")]


MAKERS: Final = (
    (("FastMCP proxy, as documented", "FastMCP proxy, one client"), _fastmcp),
    (("mcp-proxy (PyPI)",), _mcp_proxy),
    (("mcp-proxy (Rust)",), _rust_proxy),
    (("ToolHive vMCP",), _vmcp),
    (("mcp-proxy (npm)",), _npm_proxy),
    (("LiteLLM",), litellm),
    (("ContextForge", "ContextForge, stateful sessions"), contextforge),
)
"""Names of peers, and what installs these."""


def peers(notes: list[str], wanted: Callable[[str], bool]) -> list[Peer]:
    """Those wanted, by name, that can be had here; a note says why for the others. Nothing else is installed."""
    all_peers: list[Peer] = []
    for names, make in MAKERS:
        if any(map(wanted, names)):
            try:
                made = make()
            except Unmeasurable as error:
                notes.append(f"{' and '.join(names)}: not measured, {error}")
                continue
            assert tuple(peer.name for peer in made) == names
            all_peers += made
    return all_peers
