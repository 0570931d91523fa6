"""Helpers by which tests end processes."""

from __future__ import annotations

import asyncio
import signal

from dexprocess import end_process


async def test_a_process_that_does_not_end_by_itself_is_killed() -> None:
    words = ("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    await end_process(process, 0.1)
    assert process.returncode == -signal.SIGKILL
    await end_process(process, 0.1)
