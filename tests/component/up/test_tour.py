"""The tour: each command of its page, run unchanged with a real `fairlead up` and the servers that the page names."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from commands import program_in
from ports import free_port
from upprocess import DEMO, Up, started_up

PAGES = Path(__file__).parents[3] / "docs" / "try"
AWAY = "A server goes away"
BACK = "And comes back"
IN_TIME = {"Servers, over three transports", AWAY, BACK}
"""Steps that show states of servers, which are published a moment after `fairlead up` has printed them."""

OFFLINE = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), "")
"""Variables of model providers. Without them, `--llm auto` chooses the scripted model."""


class Tour:
    """The page and its folder, with free ports in place of the page's ports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(PAGES / "tour", folder, dirs_exist_ok=True)
        self.ports = {"8080": free_port(), "9001": free_port(), "9002": free_port()}
        for file in folder.glob("*.json"):
            file.write_text(self.local(file.read_text()))
        self.start, *steps = self.local((PAGES / "tour.md").read_text()).split("\n## ")
        self.steps = [(step.partition("\n")[0], step) for step in steps]

    def local(self, text: str) -> str:
        for port, free in self.ports.items():
            text = re.sub(rf"\b{port}\b", str(free), text)
        return text

    @property
    def environment(self) -> dict[str, str]:
        """Environment in which `python3` is this interpreter and `fairlead` is its command."""
        binaries = self.folder / "bin"
        binaries.mkdir(exist_ok=True)
        program_in(binaries)
        (binaries / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (binaries / "python3").chmod(0o755)
        url = f"http://127.0.0.1:{self.ports['8080']}/mcp"
        path = f"{binaries}:{os.environ['PATH']}"
        ours = {"PATH": path, "FAIRLEAD_URL": url, "COLUMNS": "200", "REMOTE_KEY": "secret"}
        return {**os.environ, **OFFLINE, **ours}

    async def run(self, command: str) -> str:
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", command, cwd=self.folder, env=self.environment, stdout=PIPE, stderr=PIPE
        )
        async with asyncio.timeout(60):
            out, err = await process.communicate()
        return (out + err).decode()

    async def server(self, port: str, *more: str) -> Process:
        words = ("--port", str(self.ports[port]), *more)
        return await asyncio.create_subprocess_exec(*DEMO, *words, stderr=asyncio.subprocess.DEVNULL)


def commands_of(step: str) -> list[tuple[str, str, str]]:
    """The commands of a step, each with the format of its output and the output that the page shows."""
    blocks: list[tuple[str, str]] = re.findall(r"```(\w*)\n(.*?)```", step, re.S)
    commands = blocks[::2]
    answers = blocks[1::2]
    assert [kind for kind, _ in commands] == ["sh"] * max(1, len(answers)), f"each answer has its command:\n{step}"
    assert {kind for kind, _ in answers} <= {"json", "text"}, f"each command has its answer:\n{step}"
    return [(command, kind, shown) for (_, command), (kind, shown) in zip(commands, answers, strict=True)]


def holds(actual: Any, shown: Any) -> bool:
    """Whether an answer contains all that the page shows: members of objects, and elements of lists in any order."""
    if isinstance(shown, dict):
        return isinstance(actual, dict) and all(
            key in actual and holds(actual[key], part) for key, part in shown.items()
        )
    if isinstance(shown, list):
        empty = not shown and actual != []
        return (
            isinstance(actual, list) and not empty and all(any(holds(item, part) for item in actual) for part in shown)
        )
    return bool(actual == shown)


def fits(output: str, kind: str, shown: str) -> bool:
    if kind == "text":
        return all(line in output for line in shown.splitlines())
    try:
        return holds(json.loads(output), json.loads(shown))
    except ValueError:
        return False


async def end_process(process: Process) -> None:
    if process.returncode is None:
        process.kill()  # killed, because at SIGTERM it would wait for Fairlead's open streams
    await process.wait()


async def everything(up: Up) -> None:
    ready: set[str] = set()
    while not ready >= {"default/store", "default/remote", "default/older", "default/local"}:
        event = await up.event(lambda event: event.get("state") == "ready")
        ready.add(event["server"])


@pytest.mark.timeout(150)
async def test_every_step_of_the_tour_answers_as_the_page_shows(tmp_path: Path) -> None:
    tour = Tour(tmp_path)
    (words,) = re.findall(r"^REMOTE_KEY=secret fairlead up (.*)$", tour.start, re.M)
    async with AsyncExitStack() as stack:
        remote = await tour.server("9001")
        stack.push_async_callback(end_process, remote)
        stack.push_async_callback(end_process, await tour.server("9002", "--sse"))
        ports = ("--port", str(tour.ports["8080"]), "--metrics-port", "0", "--output", "json")
        up = await stack.enter_async_context(started_up(*words.split(), *ports, cwd=tmp_path, env=tour.environment))
        await everything(up)
        assert {title for title, _ in tour.steps} >= IN_TIME
        for title, step in tour.steps:
            if title == AWAY:
                await end_process(remote)
            if title == BACK:
                stack.push_async_callback(end_process, await tour.server("9001"))
            for command, kind, shown in commands_of(step):
                output = await tour.run(command)
                if title in IN_TIME:
                    async with asyncio.timeout(60):
                        while not fits(output, kind, shown):
                            output = await tour.run(command)
                assert fits(output, kind, shown), f"{title}, {command}:\n{output}"
