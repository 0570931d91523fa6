"""Official SDKs that read an endpoint, each in a process of its own.

`await names("Go, 2026-07-28", url)` returns the names of the endpoint's tools, prompts, resources and templates, by
list; for a list that the SDK refused, the error. `await refusals("Go, 2026-07-28", url, "give", file)` calls a tool
once for each result in a file, and returns the indices and errors of the results that the SDK refused. A test is
skipped if a compiler or registry that the SDK needs is missing.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from builtprograms import build_go, build_java, build_node, build_program, build_python, java
from neededprograms import require_program

_SOURCES: Final = Path(__file__).parent / "sdk_readers"
_SECONDS: Final = 240


class Reader(NamedTuple):
    """One SDK."""

    folder: str
    """Folder in which it is built, below sdk_readers; empty if it is installed with the tests."""
    needed: tuple[str, ...]
    build: Callable[[Path, Path], None] | None
    command: Callable[[Path], list[str]]
    mode: str = "legacy"
    """Argument that selects the revision."""
    calls: bool = True
    """Whether its program also calls tools."""


def _node(folder: Path) -> list[str]:
    return ["node", str(_SOURCES / "typescript.mjs"), str(folder)]


def _go(folder: Path) -> list[str]:
    return [str(folder / "reader")]


def _python(program: str) -> list[str]:
    return [program, str(_SOURCES / "python.py")]


READERS: Final = {
    "TypeScript 1.x": Reader("typescript1", ("node", "npm"), build_node, _node),
    "TypeScript 2.x, 2025-11-25": Reader("typescript2", ("node", "npm"), build_node, _node),
    "TypeScript 2.x, 2026-07-28": Reader("typescript2", ("node", "npm"), build_node, _node, "modern"),
    "Python 1.x": Reader("python1", (), build_python, lambda folder: _python(str(folder / "venv/bin/python"))),
    "Python 2.x, 2025-11-25": Reader("", (), None, lambda _: _python(sys.executable)),
    "Python 2.x, 2026-07-28": Reader("", (), None, lambda _: _python(sys.executable), "auto"),
    "Go, 2025-11-25": Reader("go", ("go",), build_go, _go, "2025-11-25"),
    "Go, 2026-07-28": Reader("go", ("go",), build_go, _go, "2026-07-28"),
    "Java": Reader(
        "java",
        ("java", "javac", "mvn"),
        build_java,
        lambda folder: java(folder, "Lister"),
        calls=False,
    ),
}
FETCHED: Final = [sdk for sdk, reader in READERS.items() if reader.build is not None]
"""SDKs that are downloaded at the first use."""


async def names(sdk: str, url: str) -> dict[str, Any]:
    """Names of tools, prompts, resources and templates in the lists of one of READERS."""
    listed: dict[str, Any] = await _read(READERS[sdk], "list", url)
    return listed


async def refusals(sdk: str, url: str, tool: str, corpus: Path) -> list[tuple[int, str]]:
    """Indices and errors of the results in a file (a JSON list) that one of READERS rejects as a tool's result."""
    refused = await _read(READERS[sdk], "call", url, tool, str(corpus))
    return [(index, error) for index, error in refused]


async def _read(reader: Reader, verb: str, url: str, *words: str) -> Any:
    for program in reader.needed:
        require_program(program)
    folder = _SOURCES / reader.folder
    if reader.build is not None:
        folder = await asyncio.to_thread(build_program, folder, f"sdk-{reader.folder}", reader.build)
    command = [*reader.command(folder), verb, url, reader.mode, *words]
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
    try:
        async with asyncio.timeout(_SECONDS):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    assert process.returncode == 0, err.decode()[-3000:]
    return json.loads(out.splitlines()[-1])
