"""Runs the `fairlead` command in a separate process, like a user."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from pathlib import Path

from forkserver import ForkedProcess, can_fork, fork_command, program_words

_MAIN = "import sys; sys.argv = ['fairlead', *sys.argv[1:]]; from fairlead_cli.__main__ import main; main()"


async def fairlead(*words: str, stdin: str = "", code: str = "", **environment: str) -> tuple[int, str, str]:
    """Run the command. Returns exit code, standard output and standard error. `code` runs in its interpreter first."""
    process: ForkedProcess | asyncio.subprocess.Process
    env = {**os.environ, **environment}
    if not code and can_fork(env):
        process = await fork_command(*words, env=env)
    else:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *(["-c", f"{code}\n{_MAIN}"] if code else ["-m", "fairlead_cli"]),
            *words,
            env=env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    try:
        out, err = await asyncio.wait_for(process.communicate(stdin.encode()), 60)
    finally:
        if process.returncode is None:  # left by an interrupted test: it would make another test fail
            process.kill()
            await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def wide_fairlead(*words: str) -> tuple[int, str, str]:
    """Like `fairlead`, with 200 columns, so that tables are not wrapped."""
    return await fairlead(*words, COLUMNS="200")


def program_in(folder: Path) -> Path:
    """Add a `fairlead` program to the folder, for use in PATH, and return the folder."""
    folder.mkdir(exist_ok=True)
    program = folder / "fairlead"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(program_words())} "$@"\n')
    program.chmod(0o755)
    return folder
