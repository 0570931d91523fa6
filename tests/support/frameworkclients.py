"""Clients of models that frameworks bring: programs of `framework_clients`, in environments of their own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from client_environments import PROGRAMS, NotInstalled, environment

PACKAGES: Final = ("livekit", "pipecat")
"""Frameworks of speech."""
_ENVIRONMENTS: Final = {"langchain_google": "langchain", "vercel_ai": "vercel"}
"""Environments of programs that have none of their own."""


async def _command(framework: str) -> tuple[list[str | Path], Path]:
    """Words that begin the command of the framework's program, and the folder to run it in."""
    name = _ENVIRONMENTS.get(framework, framework)
    try:
        folder = await asyncio.to_thread(environment, name)
    except NotInstalled as error:
        pytest.skip(f"a client cannot be installed here: {error}")
    program = PROGRAMS / f"{framework}_client.mjs"
    if program.exists():
        return ["node", program], folder
    return [folder / "bin" / "python", PROGRAMS / f"{framework}_client.py"], folder


async def framework_talk(framework: str, api: str, url: str, last: str, trusted: str = "") -> list[Any]:
    """Everything that a framework's client reports until the model has said `last`. `trusted`: file of certificates."""
    trusting = {"SSL_CERT_FILE": trusted} if trusted else {}
    words, home = await _command(framework)
    process = await asyncio.create_subprocess_exec(
        *map(str, [*words, api, url, last]),
        cwd=home,
        env={**os.environ, **trusting},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await process.communicate()
    finally:
        await _end(process)
    assert process.returncode == 0, err.decode()[-3000:]
    events: list[Any] = json.loads(out.decode().splitlines()[-1])
    return events


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process that a test gave up."""
    if process.returncode is None:
        process.kill()
        await process.communicate()


@dataclass(frozen=True)
class TaskOutcome:
    """Final text or error of a task, and the calls that the client ran."""

    text: str
    error: str
    ran: tuple[str, ...]


class FrameworkClient:
    """A framework's program that runs tasks one after the other."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log

    async def run(self, api: str, url: str, tools: Sequence[str], *, stream: bool) -> TaskOutcome:
        """Run the task against a provider or a gateway."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"api": api, "stream": stream, "url": url, "tools": [*tools]}).encode() + b"\n")
        await stdin.drain()
        line = await stdout.readline()
        assert line, f"the client ended: {self._log.read_text()[-3000:]}"
        answer = json.loads(line)
        return TaskOutcome(answer.get("text", ""), answer.get("error", ""), tuple(answer["ran"]))


@contextlib.asynccontextmanager
async def framework_client(framework: str, folder: Path) -> AsyncIterator[FrameworkClient]:
    """The program of a framework as a process; what it prints is in a file of the folder."""
    words, home = await _command(framework)
    log = folder / f"{framework}.log"
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *map(str, words), cwd=home, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=errors
        )
    try:
        yield FrameworkClient(process, log)
    finally:
        await _end(process)
