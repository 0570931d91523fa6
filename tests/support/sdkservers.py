"""Servers of the official SDKs, and of FastMCP, whose tools answer with long results of every usual shape.

`await results("Go")` has the raw result of each tool by its name. Each result says 3,000 lines or rows, of which one,
number 2,000, has the word keel. A test is skipped where a compiler or registry that the SDK needs is missing.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from builtprograms import build_go, build_java, build_node, build_python, built, java, require

_SOURCES: Final = Path(__file__).parent / "sdk_servers"
_READERS: Final = Path(__file__).parent / "sdk_readers"
_SECONDS: Final = 120
_LINE_BYTES: Final = 4 << 20


class SdkServer(NamedTuple):
    """One SDK."""

    source: Path | None
    """Folder with what it is built from; None where the SDK is installed with the tests."""
    needed: tuple[str, ...]
    build: Callable[[Path, Path], None] | None
    command: Callable[[Path], list[str]]


def _node(folder: Path) -> list[str]:
    return ["node", str(_SOURCES / "typescript.mjs"), str(folder)]


def _python(program: str, *words: str) -> list[str]:
    return [program, str(_SOURCES / "python.py"), *words]


SERVERS: Final = {
    "Python 1.x": SdkServer(
        _READERS / "python1", (), build_python, lambda folder: _python(str(folder / "venv/bin/python"))
    ),
    "Python 2.x": SdkServer(None, (), None, lambda _: _python(sys.executable)),
    "FastMCP": SdkServer(None, (), None, lambda _: _python(sys.executable, "fastmcp")),
    "TypeScript 1.x": SdkServer(_READERS / "typescript1", ("node", "npm"), build_node, _node),
    "TypeScript 2.x": SdkServer(_SOURCES / "typescript2", ("node", "npm"), build_node, _node),
    "Go": SdkServer(_SOURCES / "go", ("go",), build_go, lambda folder: [str(folder / "reader")]),
    "Java": SdkServer(
        _SOURCES / "java",
        ("java", "javac", "mvn"),
        build_java,
        lambda folder: java(folder, "Shapes"),
    ),
}


async def results(sdk: str) -> dict[str, bytes]:
    """Raw results of the tools of one of SERVERS, by the names of the tools."""
    server = SERVERS[sdk]
    require(*server.needed)
    folder = _SOURCES
    if server.source is not None and server.build is not None:
        prefix = "sdk" if server.source.parent == _READERS else "sdk-server"
        folder = await asyncio.to_thread(built, server.source, f"{prefix}-{server.source.name}", server.build)
    process = await asyncio.create_subprocess_exec(
        *server.command(folder), stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=_LINE_BYTES
    )
    try:
        async with asyncio.timeout(_SECONDS):
            return await _called(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _called(process: Process) -> dict[str, bytes]:
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
    await _ask(process, 1, "initialize", client)
    _write(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    listed = msgspec.json.decode(await _ask(process, 2, "tools/list", {}))
    return {
        tool["name"]: await _ask(process, number, "tools/call", {"name": tool["name"], "arguments": {}})
        for number, tool in enumerate(listed["tools"], 3)
    }


async def _ask(process: Process, number: int, method: str, params: dict[str, Any]) -> bytes:
    """Raw result of a request."""
    assert process.stdout is not None
    _write(process, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    while True:
        line = await process.stdout.readline()
        assert line, f"the server ended at {method}"
        message = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        if "id" in message and bytes(message["id"]) == b"%d" % number:
            return bytes(message["result"])


def _write(process: Process, message: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(message) + b"\n")
