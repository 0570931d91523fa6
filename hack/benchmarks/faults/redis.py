"""The Redis of `bench_faults`, on this machine, where pods reach it at the node's address."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from installation import node_address
from ports import free_port
from rig.harness import Unmeasurable


class Redis:
    """A real Redis server as a context manager. `url` is set before the start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._host = node_address()
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"redis://{self._host}:{self._port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start Redis. Raises Unmeasurable if it is not installed."""
        program = shutil.which("redis-server")
        if program is None:
            raise Unmeasurable("redis-server is not installed: apt-get install redis-server")
        words = ["--bind", self._host, "--port", str(self._port), "--save", "", "--protected-mode", "no"]
        self._process = subprocess.Popen(
            [program, *words], cwd=self._folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def kill(self) -> None:
        """Kill Redis with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def freeze(self) -> None:
        """Suspend Redis: it accepts connections and commands but does not answer."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume Redis."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)
