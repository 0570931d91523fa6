"""Processes of a stdio server behind its gate: their end with their connection, and their number."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gated_stdio_server import TOKEN, Gated, children, gated
from waiting import eventually

pytestmark = pytest.mark.timeout(120)

DEAF = ("sh", "-c", 'trap "" TERM; sleep 600; true')
"""A program with a child, both of which read nothing, and one of which ignores SIGTERM."""


async def connected(server: Gated) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(f"{TOKEN}\n".encode())
    return writer


def descendants(server: Gated) -> list[int]:
    return [pid for each in server.servers for pid in (each, *children(each))]


def alive(pids: list[int]) -> list[int]:
    """Those that run, without zombies."""
    states = {}
    for pid in pids:
        with suppress(OSError):
            states[pid] = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return [pid for pid, state in states.items() if state != "Z"]


@contextmanager
def ended_at_last(pids: list[int]) -> Iterator[None]:
    try:
        yield
    finally:
        for pid in alive(pids):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_a_program_that_does_not_read_its_input_is_stopped_with_its_children(reset: bool) -> None:
    async with gated(*DEAF, look_s=1) as server:
        ended, other = await connected(server), await connected(server)
        await eventually(lambda: len(descendants(server)) == 4)
        pids = descendants(server)
        with ended_at_last(pids):
            if reset:
                ended.transport.abort()
            else:
                ended.close()
            await eventually(lambda: len(alive(pids)) == 2)
            assert len(server.servers) == 1, "the other connection keeps its process"
            assert server.process.returncode is None
            other.close()
            await eventually(lambda: alive(pids) == [])


async def test_a_program_that_a_shell_runs_counts_against_the_limit_of_processes() -> None:
    async with gated("sh", "-c", "echo started; cat; true", most=1) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(f"{TOKEN}\n".encode())
        assert await reader.readline() == b"started\n"
        second, other = await asyncio.open_connection("127.0.0.1", server.port)
        other.write(f"{TOKEN}\n".encode())
        assert await second.readline() == b"fairlead-gate: full 1\n"
        writer.close()
        other.close()
