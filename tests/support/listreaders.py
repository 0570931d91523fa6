"""Official SDKs that list everything of an endpoint, each in a process of its own.

`await names("Go, 2026-07-28", url)` has the names of its tools, prompts, resources and templates, by list; or a text
for a list that the SDK refused. A test is skipped where a compiler or registry that the SDK needs is missing.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from builtprograms import build_go, build_java, build_node, build_python, built

_SOURCES: Final = Path(__file__).parent / "list_readers"
_SECONDS: Final = 120


class Reader(NamedTuple):
    """One SDK."""

    folder: str
    """Its program, below list_readers."""
    needed: tuple[str, ...]
    build: Callable[[Path, Path], None] | None
    """None where it is installed with the tests."""
    command: Callable[[Path], list[str]]
    mode: str = ""
    """Argument that chooses the revision."""


def _node(folder: Path) -> list[str]:
    return ["node", str(folder / "list.mjs")]


def _go(folder: Path) -> list[str]:
    return [str(folder / "reader")]


READERS: Final = {
    "TypeScript 1.x": Reader("typescript1", ("node", "npm"), build_node, _node),
    "TypeScript 2.x, 2025-11-25": Reader("typescript2", ("node", "npm"), build_node, _node, "legacy"),
    "TypeScript 2.x, 2026-07-28": Reader("typescript2", ("node", "npm"), build_node, _node, "auto"),
    "Python 1.x": Reader(
        "python1", (), build_python, lambda folder: [str(folder / "venv/bin/python"), str(folder / "list.py")]
    ),
    "Python 2.x, 2025-11-25": Reader("python2", (), None, lambda f: [sys.executable, str(f / "list.py")], "legacy"),
    "Python 2.x, 2026-07-28": Reader("python2", (), None, lambda f: [sys.executable, str(f / "list.py")], "auto"),
    "Go, 2025-11-25": Reader("go", ("go",), build_go, _go, "2025-11-25"),
    "Go, 2026-07-28": Reader("go", ("go",), build_go, _go, "2026-07-28"),
    "Java": Reader(
        "java", ("java", "javac", "mvn"), build_java,
        lambda folder: ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{folder}:{folder}/lib/*", "Lister"],
    ),
}  # fmt: skip


async def names(sdk: str, url: str) -> dict[str, Any]:
    """Names of tools, prompts, resources and templates, as one of READERS lists them."""
    reader = READERS[sdk]
    missing = [program for program in reader.needed if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: the SDK needs it")
    folder = _SOURCES / reader.folder
    if reader.build is not None:
        folder = await asyncio.to_thread(built, folder, f"lister-{reader.folder}", reader.build)
    command = [*reader.command(folder), url, *([reader.mode] if reader.mode else [])]
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
    try:
        async with asyncio.timeout(_SECONDS):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, err.decode()[-3000:]
    listed: dict[str, Any] = json.loads(out.splitlines()[-1])
    return listed
