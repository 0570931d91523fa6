"""Runs the commands of a page unchanged in a shell, one after the other, as a reader would.

The page's ports are replaced by free ones. A line that ends in `&` runs in the background until the reader leaves; the
reader waits for its port.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from ports import free_port, listens
from waiting import until


def blocks(text: str, language: str) -> list[str]:
    """Code blocks of a page in a given language."""
    return re.findall(rf"^ *```{language}\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)


def sections(page: Path) -> dict[str, list[str]]:
    """Blocks of shell commands on a page, by heading."""
    blocks_by_heading: dict[str, list[str]] = {}
    for part in re.split(r"^#+ ", page.read_text(), flags=re.MULTILINE)[1:]:
        heading, _, text = part.partition("\n")
        blocks_by_heading[heading] = blocks(text, "sh")
    return blocks_by_heading


class Reader:
    """Reader who runs the commands of a page; a context manager. `ports`: all ports in the page and the environment."""

    def __init__(self, folder: Path, environment: Mapping[str, str], *ports: int) -> None:
        self.folder = folder
        self._ports = {str(port): str(free_port()) for port in ports}
        self._environment = {**os.environ, **{name: self.replace_ports(value) for name, value in environment.items()}}
        self._beside: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def leave(self) -> None:
        """End background commands."""
        for process in reversed(self._beside):
            os.killpg(process.pid, signal.SIGTERM)
        for process in self._beside:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:  # some wait for their clients to disconnect
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(10)
        self._beside.clear()

    def replace_ports(self, text: str) -> str:
        """Replace the page's ports in a text of the page by this reader's ports."""
        for port, free in self._ports.items():
            text = re.sub(rf"\b{port}\b", free, text)
        return text

    def follow(self, block: str, *, listening: Mapping[str, int] | None = None, seconds: float = 300) -> str:
        """Run the commands of a block, and return their output. Raises AssertionError with the output if one fails.

        `listening`: ports to wait for, by a word of the line that opens the port and runs in the background.
        """
        printed = ""
        script = ""
        for line in block.splitlines(keepends=True):
            if line.rstrip().endswith(" &"):
                printed += self._run(script, seconds)
                script = ""
                self._start(line.rstrip().removesuffix(" &"))
                for port in [port for word, port in (listening or {}).items() if word in line]:
                    self.listens(port)
            else:
                script += line
        return printed + self._run(script, seconds)

    def listens(self, port: int) -> None:
        """Wait until a port is open. Raises AssertionError."""
        until(f"a listener on {port}", lambda: listens(int(self._ports[str(port)])), seconds=90)

    def _run(self, script: str, seconds: float) -> str:
        if not script.strip():
            return ""
        command = ["bash", "-euo", "pipefail", "-c", self.replace_ports(script)]
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=self._environment,
            text=True,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as shell:
            try:
                out, err = shell.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(shell.pid, signal.SIGKILL)  # also the children of the shell, such as a build
                raise
        assert shell.returncode == 0, f"{script}\n{out}\n{err[-3000:]}"
        return out

    def _start(self, command: str) -> None:
        log = (self.folder / "beside.log").open("ab")
        words = ["bash", "-c", f"exec {self.replace_ports(command)}"]
        self._beside.append(
            subprocess.Popen(
                words, cwd=self.folder, env=self._environment, stdout=log, stderr=log, start_new_session=True
            )
        )
        log.close()
