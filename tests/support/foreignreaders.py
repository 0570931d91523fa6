"""Tool servers in other languages that read JSON otherwise than Python does: names without regard to case.

    async with go_reader() as reader:     # encoding/json: reader.url("/sdk") is the official SDK, "/plain" a handler
    async with java_reader() as reader:   # Jackson with ACCEPT_CASE_INSENSITIVE_PROPERTIES: "/plain"

`await reader.ran()` has what they ran since they were asked last. Their sources are in `foreign_readers`; each is built
once, in ~/.cache. A test is skipped where its compiler is missing. What cannot be built is a failure with CI set, and
skipped elsewhere, as it needs the network.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import urllib.request
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from builtprograms import build_go, build_java, built

_SOURCES: Final = Path(__file__).parent / "foreign_readers"


class Reader:
    """A running server."""

    def __init__(self, port: int) -> None:
        self._port = port

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._port}{path}"

    async def ran(self) -> list[Any]:
        """Calls that it ran since the last question: `{"name", "arguments"}`."""

        def get() -> Any:
            with urllib.request.urlopen(self.url("/ran"), timeout=30) as answer:
                return json.loads(answer.read())

        found: list[Any] = await asyncio.to_thread(get)
        return found


def go_reader() -> contextlib.AbstractAsyncContextManager[Reader]:
    return _running("go", ["go"], build_go, lambda folder: [str(folder / "reader")])


def java_reader() -> contextlib.AbstractAsyncContextManager[Reader]:
    return _running(
        "java", ["java", "javac", "mvn"], build_java,
        lambda folder: ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{folder}:{folder}/lib/*", "Reader"],
    )  # fmt: skip


@contextlib.asynccontextmanager
async def _running(
    language: str, needed: Sequence[str], build: Callable[[Path, Path], None], command: Callable[[Path], list[str]]
) -> AsyncIterator[Reader]:
    missing = [program for program in needed if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: it builds the server in {language} that this test asks")
    folder = await asyncio.to_thread(built, _SOURCES / language, f"reader-{language}", build)
    process = await asyncio.create_subprocess_exec(*command(folder), stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            yield Reader(int(await process.stdout.readline()))
    finally:
        process.stdin.close()
        await process.wait()
