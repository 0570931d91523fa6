"""Processes untrusted bytes in a child process, with limits on its memory, time and output.

A thread cannot be stopped: input that was crafted to be slow would occupy the thread, and a processor, indefinitely. A
process can be killed when the call that waits for it times out or is cancelled.
"""

from __future__ import annotations

import asyncio
import math
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from fairlead_mcp.limited_work import OUT_OF_MEMORY

_CHILD: Final = "fairlead_mcp.limited_work"


class WorkFailed(Exception):
    """Failure of a process. The message is the end of a sentence: "takes longer than 15 s"."""


class ProcessLimits(NamedTuple):
    """Limits of one process."""

    memory: int
    """Limit on the address space in bytes, where the system supports that."""
    seconds: float
    max_answer: int
    """Limit on the output in bytes."""


async def run_limited(module: str, input_parts: Sequence[bytes], limits: ProcessLimits) -> bytes:
    """Run `work` of a module in a new process on the joined bytes, and return its output. Raises WorkFailed.

    The process is killed on cancellation.
    """
    # -P: do not import modules from the working directory
    command = [sys.executable, "-P", "-m", _CHILD, module, str(limits.memory), str(math.ceil(limits.seconds) + 1)]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
    try:
        async with asyncio.timeout(limits.seconds):
            answer = await _exchange(process, input_parts, limits.max_answer)
            await process.wait()
    except TimeoutError as error:
        raise WorkFailed(f"takes longer than {limits.seconds:g} s") from error
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()  # drains and closes the pipes
    if process.returncode == OUT_OF_MEMORY:
        raise WorkFailed(f"needs more than {limits.memory >> 20} MiB of memory")
    if process.returncode != 0:
        raise WorkFailed(f"exited with code {process.returncode}")
    return answer


async def _exchange(process: Process, input_parts: Sequence[bytes], max_answer: int) -> bytes:
    """Send the input to a process, and return its output. Raises WorkFailed."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError, ConnectionResetError):  # the process exited early; its exit code is checked later
        for part in input_parts:
            process.stdin.write(part)
            await process.stdin.drain()
    process.stdin.close()
    answer = bytearray()
    while part := await process.stdout.read(2**20):
        answer += part
        if len(answer) > max_answer:
            raise WorkFailed(f"returns more than {max_answer >> 20} MiB")
    return bytes(answer)
