"""Starting and ending the programs of a control plane.

Every program gets a session of its own (a Ctrl-C in the terminal must not reach the API server before the
tests have ended) and dies with the process that started it, where `setpriv` exists.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

GARBAGE: Final = {"GOGC": "400"}
"""Go collects after fivefold instead of twofold growth of the heap: a fifth less processor time for 100 MB more."""


class Program:
    """One child process with its log. `kill` sends SIGKILL, because no program here has state to save."""

    def __init__(self, name: str, command: list[str], log: Path) -> None:
        self.name = name
        self._command = command
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the program and append its output to the log. No-op while it runs."""
        if self.running:
            return
        setpriv = shutil.which("setpriv")
        guard = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*guard, *self._command],
                env={**GARBAGE, **os.environ},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id; only valid while it runs."""
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    def signal(self, number: int) -> None:
        """Send a signal. No-op while the program does not run."""
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the process and wait until it has ended (the API server needs 60 s for SIGTERM with open watches)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=10)
            self._process = None

    def tail(self, lines: int = 15) -> str:
        """End of its log, for error messages."""
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])
