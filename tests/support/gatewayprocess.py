r"""A gateway as a process of its own.

async with started(FAIRLEAD_DOCUMENTS=str(folder)) as gateway:
    gateway.port = int((await gateway.line(r"MCP on http://127\.0\.0\.1:(\d+)/mcp"))[1])
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import gap_recorder

UNGUARDED: Final = "FAIRLEAD_UNGUARDED"
"""Environment variable that is set while `unguarded` removes a guard. The guard is then removed in the gateway too."""


class Process:
    """A gateway started with `python -m fairlead_app`, which clients of tests can use like a `Gateway`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
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
    """Start a gateway with these environment variables. With the variable of `gap_recorder`, the longest gaps of its
    event loop are written to a file.
    """
    base = {name: os.environ[name] for name in ("PATH", "HOME", UNGUARDED) if name in os.environ}
    program = ["-m", "fairlead_app"]
    plugins = {"unguarded": UNGUARDED in base, "gap_recorder": gap_recorder.FILE in environment}
    first = [name for name, wanted in plugins.items() if wanted]
    if first:
        base["PYTHONPATH"] = str(Path(__file__).parent)
        runs = "runpy.run_module('fairlead_gateway', run_name='__main__')"
        program = ["-c", f"import runpy, {', '.join(first)}; {runs}"]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *program,
        stderr=asyncio.subprocess.PIPE,
        env={**base, "FAIRLEAD_PORT": "0", "FAIRLEAD_METRICS_PORT": "0", **environment},
    )
    try:
        yield Process(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
