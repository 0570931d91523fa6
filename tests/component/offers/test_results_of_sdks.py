"""Long results in the usual shapes of every SDK are shortened and can be read on.

Each result has 3,000 lines or rows, of which only number 2,000 has the word keel. A test is skipped if a compiler or
registry that the SDK needs is missing.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest

from builtprograms import build_go, build_java, build_node, build_program, build_python, java
from fairlead_gateway.core.long_results import LongResult
from fairlead_offers.results.shortened_results import block_tokens, shorten_result
from fairlead_offers.results.stored_results import Reading, ReadPassages, StoredResult, read
from fairlead_search.passages import Lines
from neededprograms import require_program

_SOURCES: Final = Path(__file__).parents[2] / "support" / "sdk_servers"
_READERS: Final = _SOURCES.parent / "sdk_readers"
_SECONDS: Final = 120
_LINE_BYTES: Final = 4 << 20


class SdkServer(NamedTuple):
    """One SDK."""

    source: Path | None
    """Folder with the server's source; None if the SDK is installed with the tests."""
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
    """Raw results of the tools of a server in SERVERS, by tool name."""
    server = SERVERS[sdk]
    for program in server.needed:
        require_program(program)
    folder = _SOURCES
    if server.source is not None and server.build is not None:
        prefix = "sdk" if server.source.parent == _READERS else "sdk-server"
        folder = await asyncio.to_thread(build_program, server.source, f"{prefix}-{server.source.name}", server.build)
    process = await asyncio.create_subprocess_exec(
        *server.command(folder), stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=_LINE_BYTES
    )
    try:
        async with asyncio.timeout(_SECONDS):
            return await _call_all(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _call_all(process: Process) -> dict[str, bytes]:
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


TOKENS = 400
LINE = "line 2000: the keel is of oak"
encode = msgspec.msgpack.Encoder().encode


def read_on(result: bytes, **options: Any) -> ReadPassages:
    return read(encode(Reading([StoredResult("s/1", result)], TOKENS, **options)))


def first_block(result: bytes) -> str:
    """The sentences and the shape at the beginning of a shortened result."""
    long_result = LongResult(result, TOKENS, "s/1", "read on with read_result(id)", supports_links=True)
    short = shorten_result(long_result).result
    assert short is not None
    blocks = json.loads(short)["content"]
    assert sum(map(block_tokens, blocks)) <= TOKENS
    return str(blocks[0]["text"])


@pytest.mark.parametrize("sdk", SERVERS)
async def test_long_results_of_an_sdk_are_read_on_whatever_their_shape(sdk: str) -> None:
    made = await results(sdk)
    assert {"text", "json_text", "minified", "several", "embedded", "mixed"} <= made.keys()
    for name, result in made.items():
        told = first_block(result)
        (matched,) = read_on(result, grep="keel").passages
        assert "keel" in matched.text, (name, "a pattern finds a line, or the surroundings of a match in a long one")
        rows = re.search(r"^\$(\S*): array, 3,000 rows", told, re.MULTILINE)
        if rows is not None:
            (part,) = read_on(result, path=f"{rows[1]}[1999].part").passages
            assert part.text == "keel", (name, told)
        elif name == "minified":
            assert "Shape:\ntext, 1 line, " in told
            line, column = map(int, matched.text.split(":")[:2])
            (part,) = read_on(result, lines=Lines(line, line, column, column + 400)).passages
            assert LINE in part.text, "a long line is read from the character on that a match names"
        else:
            assert re.search(r"^text, 3,00[01] lines", told, re.MULTILINE), (name, told)
            (part,) = read_on(result, lines=Lines(2000, 2000)).passages
            assert part.text == LINE, name


@pytest.mark.parametrize("sdk", ["Python 1.x", "Python 2.x", "FastMCP"])
async def test_a_text_within_a_model_is_read_by_path_with_lines_or_a_pattern(sdk: str) -> None:
    result = (await results(sdk))["model"]
    assert "$.log: string, 3,000 lines" in first_block(result)
    (part,) = read_on(result, path="log", lines=Lines(2000, 2000)).passages
    assert (part.text, part.where) == (LINE, "log lines 2000-2000")
    (matched,) = read_on(result, path="log", grep="KEEL").passages
    assert matched.text == f"2000: {LINE}"
