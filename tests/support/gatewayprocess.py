r"""A gateway as a process of its own.

async with started(FAIRLEAD_DOCUMENTS=str(folder)) as gateway:
    gateway.port = int((await gateway.line(r"MCP on http://127\.0\.0\.1:(\d+)/mcp"))[1])
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import gap_recorder
from forkserver import ForkedProcess, can_fork, fork_command

UNGUARDED: Final = "FAIRLEAD_UNGUARDED"
"""Environment variable that is set while `unguarded` removes a guard. The guard is then removed in the gateway too."""

_MODULE: Final = ("-m", "fairlead_app")


class Process:
    """A gateway started with `python -m fairlead_app`, which clients of tests can use like a `Gateway`."""

    def __init__(self, process: ForkedProcess | asyncio.subprocess.Process) -> None:
        self.process = process
        self.port = 0

    async def line(self, pattern: str) -> re.Match[str]:
        """Wait for the next line of the gateway's log that matches."""
        assert self.process.stderr is not None
        seen = ""
        async with asyncio.timeout(20):
            while line := (await self.process.stderr.readline()).decode():
                if match := re.search(pattern, line):
                    return match
                seen += line
        raise AssertionError(f"no line like {pattern!r} in:\n{seen}")


@asynccontextmanager
async def started(**environment: str) -> AsyncIterator[Process]:
    """Start a gateway with these environment variables: forked where that makes no difference."""
    folders = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}  # of the compiled path
    forked = {**folders, **_base(), **environment}
    if UNGUARDED in forked or gap_recorder.FILE in forked or not can_fork(forked):
        async with interpreted(**environment) as gateway:
            yield gateway
        return
    process = await fork_command(*_MODULE, env=forked)
    try:
        yield Process(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


@asynccontextmanager
async def interpreted(**environment: str) -> AsyncIterator[Process]:
    """Start a gateway in an interpreter of its own, for tests that measure its memory or its processor time. With the
    variable of `gap_recorder`, the longest gaps of its event loop are written to a file.
    """
    base = _base()
    program = [*_MODULE]
    plugins = {"unguarded": UNGUARDED in base, "gap_recorder": gap_recorder.FILE in environment}
    if first := [name for name, wanted in plugins.items() if wanted]:
        base["PYTHONPATH"] = str(Path(__file__).parent)
        runs = "runpy.run_module('fairlead_gateway', run_name='__main__')"
        program = ["-c", f"import runpy, {', '.join(first)}; {runs}"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *program, stderr=asyncio.subprocess.PIPE, env={**base, **environment}
    )
    try:
        yield Process(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _base() -> dict[str, str]:
    """Variables of every gateway: free ports, and what it takes over from this process."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", UNGUARDED) if name in os.environ}
    return {**inherited, "FAIRLEAD_PORT": "0", "FAIRLEAD_METRICS_PORT": "0"}
