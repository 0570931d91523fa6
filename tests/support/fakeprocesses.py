"""Fake child processes: a launcher whose servers are functions, for tests in virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from fairlead_mcp.errors import McpError
from fairlead_mcp.host import ChildHost
from fairlead_mcp.stdio import ChildSpec, Process, ProcessObserver

Answer = Callable[["FakeProcess", dict[str, Any]], None]


class FakeProcess:
    """Process without a program. `received` contains the bytes written to it; `say` and `die` are its own actions."""

    def __init__(self, pid: int, program: str, events: ProcessObserver, answer: Answer) -> None:
        self.pid = pid
        self.program = program
        self.events = events
        self.received: list[dict[str, Any]] = []
        self.stopped = False
        self.written_bytes = 0
        self._answer = answer

    def write(self, line: bytes) -> None:
        message = json.loads(line)
        self.received.append(message)
        self._answer(self, message)

    def say(self, message: object) -> None:
        self.events.on_line(json.dumps(message).encode())

    def die(self, how: str = "exited with code 1") -> None:
        self.events.on_exit(how)

    async def stop(self, grace: float) -> None:
        self.stopped = True


class FakeLauncher:
    """Launches `FakeProcess`es with the behavior `answer`, or fails with `refusal` if that is set. `program` is started
    in place of the command's program.
    """

    def __init__(self, answer: Answer, program: str = "") -> None:
        self.answer = answer
        self.program = program
        self.refusal: McpError | None = None
        self.launched: list[FakeProcess] = []
        self.specs: list[ChildSpec] = []
        self.closed = False

    async def launch(self, spec: ChildSpec, events: ProcessObserver) -> Process:
        self.specs.append(spec)
        if self.refusal is not None:
            raise self.refusal
        process = FakeProcess(len(self.launched) + 1, self.program or spec.command, events, self.answer)
        self.launched.append(process)
        return process

    async def aclose(self) -> None:
        self.closed = True


def modern(process: FakeProcess, message: dict[str, Any]) -> None:
    """A modern server that answers every request with its params."""
    if "id" in message:
        result = message.get("params", {})
        if message["method"] == "server/discover":
            result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        process.say({"jsonrpc": "2.0", "id": message["id"], "result": result})


def legacy(process: FakeProcess, message: dict[str, Any]) -> None:
    """A legacy server that refuses requests before the handshake, and answers later ones with their params."""
    if "id" not in message:
        return
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "fake"}}
        process.say({"jsonrpc": "2.0", "id": message["id"], "result": result})
    elif not any(past["method"] == "initialize" for past in process.received):
        process.say({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32600, "message": "initialize first"}})
    else:
        process.say({"jsonrpc": "2.0", "id": message["id"], "result": message.get("params", {})})


def silent(process: FakeProcess, message: dict[str, Any]) -> None:
    """Ignores `server/discover`; otherwise behaves like `legacy`."""
    if message["method"] != "server/discover":
        legacy(process, message)


def mute(process: FakeProcess, message: dict[str, Any]) -> None:
    """Answers nothing."""


def now() -> float:
    """Time of the loop's clock in seconds, which is virtual in these tests."""
    return asyncio.get_running_loop().time()


def host_of(launcher: FakeLauncher) -> ChildHost:
    """A host of children that `launcher` starts, without randomness."""
    return ChildHost(launcher=launcher, random=lambda: 0.0, clock=now)
