"""Memory of real servers under `fairlead up`, with and without npx and uvx as their parent processes.

Eleven servers of an `mcp.json`, in their newest versions from npm and PyPI, which are fetched before anything is
measured. All processes below `fairlead up` are counted, after every server has listed its tools. RSS counts shared
memory for each process, PSS counts it once.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairlead_mcp.programs import search_path
from fairlead_mcp.wrappers import KEEP
from rig.harness import Goal, Report, Sample, Settings, Unmeasurable, interleaved, ratios
from rig.processes import memory, process_tree, shared_once
from upprocess import fairlead_up

ROUNDS: Final = 3
START_SECONDS: Final = 300.0
REST_SECONDS: Final = 3.0
"""Seconds to wait after the last server is ready, so that memory needed only during the start is not measured."""
MB: Final = 1e6

NPM: Final = {
    "everything": ["@modelcontextprotocol/server-everything"],
    "files": ["@modelcontextprotocol/server-filesystem", "."],
    "memory": ["@modelcontextprotocol/server-memory"],
    "thinking": ["@modelcontextprotocol/server-sequential-thinking"],
    "context7": ["@upstash/context7-mcp@latest"],
    "playwright": ["@playwright/mcp@latest", "--headless"],
}
PYPI: Final = {
    "fetch": ["mcp-server-fetch"],
    "git": ["mcp-server-git"],
    "time": ["mcp-server-time", "--local-timezone", "UTC"],
    "calculator": ["mcp-server-calculator"],
    "duckduckgo": ["duckduckgo-mcp-server"],
}
TARGETS: Final = ("npx and uvx in front", "alone")


@dataclass(frozen=True)
class Figures:
    """Results of one start of all servers; memory in MB, without `fairlead up` itself."""

    processes: int
    rss: float
    pss: float
    seconds: float


def configuration(target: str) -> dict[str, object]:
    """The `mcp.json` of a target."""
    npm = {name: {"command": "npx", "args": ["-y", *words]} for name, words in NPM.items()}
    pypi = {name: {"command": "uvx", "args": words} for name, words in PYPI.items()}
    env = {KEEP: "true"} if target == TARGETS[0] else {}
    return {"mcpServers": {name: {**server, "env": env} for name, server in {**npm, **pypi}.items()}}


async def measured(target: str, folder: Path) -> Figures:
    """Start all servers, measure and end them. Raises AssertionError if a server does not become ready."""
    file = folder / "mcp.json"
    file.write_text(json.dumps(configuration(target)))
    begun = time.perf_counter()
    async with fairlead_up(file, cwd=folder) as up:
        left = {f"default/{name}" for name in (*NPM, *PYPI)}
        while left:
            event = await up.event(lambda event: event.get("state") == "ready", within=START_SECONDS)
            left.discard(event["server"])
        seconds = time.perf_counter() - begun
        await asyncio.sleep(REST_SECONDS)
        pids = [pid for pid in process_tree(up.pid) if pid != up.pid]
        rss, pss = sum(memory(pid).now for pid in pids), sum(map(shared_once, pids))
    return Figures(len(pids), rss / MB, pss / MB, seconds)


def run(settings: Settings) -> Report:
    """One row per target, and the ratio of both."""
    for program in ("npx", "uvx"):
        if shutil.which(program, path=search_path(os.environ)) is None:
            raise Unmeasurable(f"{program} is not installed")
    figures_by_target: dict[str, dict[int, Figures]] = {target: {} for target in TARGETS}
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as scratch:
        try:
            asyncio.run(measured(TARGETS[1], Path(scratch)))  # downloads missing packages
            for number, target in interleaved(TARGETS, settings.rounds):
                figures_by_target[target][number] = asyncio.run(measured(target, Path(scratch)))
        except AssertionError as error:
            raise Unmeasurable(str(error)) from error
    return report(figures_by_target)


def report(figures_by_target: dict[str, dict[int, Figures]]) -> Report:
    """The table and the goals."""
    columns = {"processes": "processes", "rss": "RSS, MB", "pss": "PSS, MB", "seconds": "all ready after, s"}
    result = Report("wrappers")
    series = {
        target: {name: {n: float(getattr(each_round, name)) for n, each_round in rounds.items()} for name in columns}
        for target, rounds in figures_by_target.items()
    }
    for target, figures in series.items():
        cells = {title: Sample.of(figures[name].values()) for name, title in columns.items()}
        result.rows.append({"11 servers": target, **cells})
    before, now = (series[target] for target in TARGETS)
    result.rows.append({"11 servers": "ratio", **{t: ratios(now[name], before[name]) for name, t in columns.items()}})
    most, rss = (Sample.of(now[name].values()).median for name in ("processes", "rss"))
    result.goals = [Goal("processes", most, "", at_most=15), Goal("RSS", rss, "MB", at_most=1000)]
    return result
