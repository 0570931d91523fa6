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
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import urllib.request
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

_SOURCES: Final = Path(__file__).parent / "foreign_readers"
_CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairlead-tests"
_BUILD_SECONDS: Final = 600


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
    return _running("go", ["go"], _build_go, lambda folder: [str(folder / "reader")])


def java_reader() -> contextlib.AbstractAsyncContextManager[Reader]:
    return _running(
        "java", ["java", "javac", "mvn"], _build_java,
        lambda folder: ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{folder}:{folder}/lib/*", "Reader"],
    )  # fmt: skip


@contextlib.asynccontextmanager
async def _running(
    language: str, needed: Sequence[str], build: Callable[[Path, Path], None], command: Callable[[Path], list[str]]
) -> AsyncIterator[Reader]:
    missing = [program for program in needed if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: it builds the server in {language} that this test asks")
    folder = await asyncio.to_thread(_built, language, build)
    process = await asyncio.create_subprocess_exec(*command(folder), stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            yield Reader(int(await process.stdout.readline()))
    finally:
        process.stdin.close()
        await process.wait()


def _built(language: str, build: Callable[[Path, Path], None]) -> Path:
    """The folder with the server of that language."""
    source, digest = _SOURCES / language, hashlib.sha256()
    for file in sorted(source.iterdir()):
        digest.update(file.read_bytes())
    folder = _CACHE / f"reader-{language}-{digest.hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".built").exists():
            try:
                build(source, folder)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                said = f"the server in {language} cannot be built: {error}\n{(error.stderr or b'')[-2000:]!r}"
                if os.environ.get("CI"):
                    pytest.fail(said)
                pytest.skip(said)
            (folder / ".built").touch()
    return folder


def _build_go(source: Path, folder: Path) -> None:
    command = ["go", "build", "-mod=readonly", "-trimpath", "-o", str(folder / "reader"), "."]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True, timeout=_BUILD_SECONDS)


def _build_java(source: Path, folder: Path) -> None:
    fetch = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder}/lib"]
    subprocess.run(fetch, cwd=source, check=True, capture_output=True, timeout=_BUILD_SECONDS)
    compile_ = ["javac", "-cp", f"{folder}/lib/*", "-d", str(folder), "Reader.java"]
    subprocess.run(compile_, cwd=source, check=True, capture_output=True, timeout=_BUILD_SECONDS)
