"""Real SDKs read a corpus of odd results through the gateway: each call that was executed returns."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final

import pytest
from mcp import Client

from gatewayworld import catalog, running
from rawserver import raw_server
from resultcorpus import CORPUS
from shapeserver import LEGACY, answer_json

READERS: Final = Path(__file__).resolve().parents[2] / "support" / "result_readers"
DIRECT: Final = CORPUS[::20]
"""Part of the corpus that is read without the gateway, to see that the SDK would refuse something."""
PYTHON: Final = """
import asyncio, json, sys
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client

async def main(url, tool, corpus):
    refused = []
    async with streamablehttp_client(url) as (reads, writes, _), ClientSession(reads, writes) as session:
        await session.initialize()
        for index, result in enumerate(json.load(open(corpus))):
            try:
                await session.call_tool(tool, {"result": result})
            except Exception as error:
                refused.append([index, str(error)])
    print(json.dumps(refused))

asyncio.run(main(*sys.argv[1:]))
"""
"""Reader of the Python SDK before version 2: calls the tool once for each result, and prints the refused ones."""
Read = Callable[[str, str, Path], Awaitable[list[Any]]]
"""Calls the tool at a URL for each result of a file; returns those that were refused."""


async def printed(folder: Path, *command: str) -> str:
    """Output of a program; the test is skipped where it is missing."""
    beside_python = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    program = shutil.which(command[0], path=beside_python)
    if program is None:
        pytest.skip(f"{command[0]} is not installed")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(program, *command[1:], cwd=folder, stdout=pipe, stderr=pipe)
    try:
        out, error = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, f"{out.decode()[-2000:]}\n{error.decode()[-2000:]}"
    return out.decode()


async def assert_all_are_read(folder: Path, read: Read) -> None:
    whole, part = folder / "corpus.json", folder / "part.json"
    whole.write_text(json.dumps(CORPUS))
    part.write_text(json.dumps(DIRECT))
    async with raw_server(answer_json) as server:
        reached = catalog("odd", server.url, ["give"], version=LEGACY)
        async with running(folder, reached) as gateway:
            refused = await read(f"http://127.0.0.1:{gateway.port}/mcp", "odd__give", whole)
        assert [(CORPUS[index], why) for index, why in refused] == []
        assert len(await read(server.url, "give", part)) > 5, "the SDK takes anything"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.timeout(180)
async def test_version_2_of_the_python_sdk_reads_every_result(tmp_path: Path, mode: Any) -> None:
    async def read(url: str, tool: str, _: Path) -> list[Any]:
        refused = []
        async with Client(url, mode="legacy" if tool == "give" else mode) as client:
            for index, result in enumerate(DIRECT if tool == "give" else CORPUS):
                if index % 2 != (mode == "auto"):
                    continue  # either era reads one half: it takes seconds
                try:
                    await client.call_tool(tool, {"result": result})
                except Exception as error:  # noqa: BLE001  # each kind of refusal is listed
                    refused.append((index, str(error)))
        return refused

    await assert_all_are_read(tmp_path, read)


@pytest.mark.network
@pytest.mark.timeout(300)
async def test_version_1_of_the_python_sdk_reads_every_result(tmp_path: Path) -> None:
    async def read(url: str, tool: str, corpus: Path) -> list[Any]:
        with_sdk = ("uv", "run", "--no-project", "--with", "mcp>=1.20,<2", "python")
        return refusals(await printed(tmp_path, *with_sdk, "-c", PYTHON, url, tool, str(corpus)))

    await assert_all_are_read(tmp_path, read)


@pytest.mark.network
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("major", "era", "package"),
    [
        ("1", "legacy", "@modelcontextprotocol/sdk@1.32.2"),
        ("2", "legacy", "@modelcontextprotocol/client@2.4.0"),
        ("2", "modern", "@modelcontextprotocol/client@2.4.0"),
    ],
)
async def test_the_typescript_sdk_reads_every_result(tmp_path: Path, major: str, era: str, package: str) -> None:
    await printed(tmp_path, "npm", "install", "--no-audit", "--no-fund", package)

    async def read(url: str, tool: str, corpus: Path) -> list[Any]:
        spoken = "legacy" if tool == "give" else era
        program = str(READERS / "typescript.mjs")
        return refusals(await printed(tmp_path, "node", program, major, spoken, url, tool, str(corpus)))

    await assert_all_are_read(tmp_path, read)


@pytest.mark.network
@pytest.mark.timeout(600)
async def test_the_go_sdk_reads_every_result(tmp_path: Path) -> None:
    await printed(READERS / "go", "go", "build", "-mod=readonly", "-o", str(tmp_path / "reader"), ".")

    async def read(url: str, tool: str, corpus: Path) -> list[Any]:
        return refusals(await printed(tmp_path, str(tmp_path / "reader"), url, tool, str(corpus)))

    await assert_all_are_read(tmp_path, read)


def refusals(out: str) -> list[Any]:
    """What a reader printed."""
    read: Iterable[Any] = json.loads(out.splitlines()[-1])
    return list(read)
