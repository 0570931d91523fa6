"""A Redis for one test: Debian's redis-server on a free port, by default without persistence.

async with redis_server() as redis:
    Settler(RedisSettings(url=redis.url), …)
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ports import free_port, listens
from waiting import eventually

STARTED_SECONDS = 30


class RedisServer:
    """Redis as a separate process."""

    def __init__(self, folder: Path, password: str, *, persistent: bool = False) -> None:
        self.port = free_port()
        self._folder = folder
        self._password = password
        self._persistent = persistent
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"redis://:{self._password}@127.0.0.1:{self.port}/0"

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            "redis-server",
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "yes" if self._persistent else "no",
            "--dir",
            str(self._folder),
            "--requirepass",
            self._password,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        await eventually(lambda: listens(self.port), seconds=STARTED_SECONDS)

    async def stop(self) -> None:
        """Kill Redis, as in a crash."""
        process = self._process
        self._process = None
        if process is not None:
            process.kill()
            await process.wait()

    def freeze(self) -> None:
        """Suspend Redis: it keeps its connections and answers nothing."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)


@contextlib.asynccontextmanager
async def redis_server(
    folder: Path, password: str = "sesame", *, persistent: bool = False
) -> AsyncIterator[RedisServer]:
    """A running Redis. Without redis-server, skips the test, or fails it in CI."""
    if shutil.which("redis-server") is None:
        missing = "redis-server is not installed (Debian: apt-get install redis-server)"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    server = RedisServer(folder, password, persistent=persistent)
    try:
        await server.start()
        yield server
    finally:
        await server.stop()
