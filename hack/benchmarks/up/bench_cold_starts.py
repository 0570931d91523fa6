"""First start of many servers under `fairlead up`, with caches that are empty, beside the installers one by one.

Eleven servers of an `mcp.json`, in their newest versions from npm and PyPI. Each round fetches all packages twice into
caches of its own: once by `npm exec` and `uvx` one after another, which start nothing, and once by `fairlead up`, until
every server has listed its tools.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

from fairlead_mcp.programs import search_path
from rig.harness import Goal, Report, Sample, Settings, Unmeasurable, ratios
from up.bench_wrappers import NPM, PYPI, START_SECONDS
from upprocess import fairlead_up

MOST: Final = 2.0
"""Maximum ratio of the time for all servers to that of their installers one after the other."""
FETCH_SECONDS: Final = 600.0


def caches(folder: Path) -> dict[str, str]:
    """Environment variables that place caches below a folder."""
    return {"npm_config_cache": str(folder / "npm"), "UV_CACHE_DIR": str(folder / "uv")}


def installed(folder: Path) -> float:
    """Seconds in which the installers download all packages, one after the other."""
    environment = {**os.environ, "PATH": search_path(os.environ), **caches(folder)}
    commands = [["npx", "-y", f"--package={words[0]}", "--", "true"] for words in NPM.values()]
    commands += [["uvx", "--from", words[0], "python", "-c", ""] for words in PYPI.values()]
    begun = time.perf_counter()
    for command in commands:
        program = shutil.which(command[0], path=environment["PATH"]) or command[0]
        subprocess.run(
            [program, *command[1:]], env=environment, cwd=folder, check=True, capture_output=True, timeout=FETCH_SECONDS
        )
    return time.perf_counter() - begun


async def started(folder: Path) -> tuple[float, float]:
    """Seconds until the first and the last server are ready. Raises AssertionError if a server does not become
    ready.
    """
    npm = {name: {"command": "npx", "args": ["-y", *words]} for name, words in NPM.items()}
    pypi = {name: {"command": "uvx", "args": words} for name, words in PYPI.items()}
    servers = {name: {**server, "env": caches(folder)} for name, server in {**npm, **pypi}.items()}
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    begun = time.perf_counter()
    first = 0.0
    async with fairlead_up(file, cwd=folder) as up:
        left = {f"default/{name}" for name in servers}
        while left:
            event = await up.event(lambda event: event.get("state") == "ready", within=START_SECONDS)
            first = first or time.perf_counter() - begun
            left.discard(event["server"])
        return first, time.perf_counter() - begun


def run(settings: Settings) -> Report:
    """One row each, and their ratio."""
    for program in ("npx", "uvx"):
        if shutil.which(program, path=search_path(os.environ)) is None:
            raise Unmeasurable(f"{program} is not installed")
    alone: dict[int, float] = {}
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    for number in range(settings.rounds):
        with (
            tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder_name,
            tempfile.TemporaryDirectory(prefix="fairlead-bench-") as other,
        ):
            try:
                alone[number] = installed(Path(folder_name))
                first[number], last[number] = asyncio.run(started(Path(other)))
            except (subprocess.SubprocessError, AssertionError) as error:
                raise Unmeasurable(str(error)) from error
    title = "11 servers, empty caches"
    columns = ("first ready after, s", "all ready after, s")
    result = Report("cold_starts")
    result.rows.append(
        {title: "installers one by one, nothing started", columns[0]: None, columns[1]: Sample.of(alone.values())}
    )
    result.rows.append(
        {title: "fairlead up", columns[0]: Sample.of(first.values()), columns[1]: Sample.of(last.values())}
    )
    ratio = ratios(last, alone)
    result.rows.append({title: "ratio", columns[0]: None, columns[1]: ratio})
    result.goals = [
        Goal("all ready, of the installers one by one", ratio.median if ratio is not None else None, "", at_most=MOST)
    ]
    return result
