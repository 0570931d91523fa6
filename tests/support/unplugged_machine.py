"""Clients on a machine that loses its network: a network namespace whose packets are dropped at some time.

Connections that the clients close afterwards send neither FIN nor RST. This needs `iptables` and the right to create
network namespaces; `possible()` says whether both exist. Everything is removed at the end of the context.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_NUMBERS = itertools.count(os.getpid() % 60 * 4)


def possible() -> bool:
    """Whether this process may create network namespaces, and `iptables` is installed."""
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("iptables"):
        return False
    return subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode == 0


class Elsewhere:
    """Clients in a network namespace. `host`: address of this machine in that network."""

    def __init__(self, name: str, subnet: str) -> None:
        self._name = name
        self._subnet = subnet
        self._sources = itertools.count(10)
        self._source = ""
        self._crowd: subprocess.Popen[str] | None = None
        self.host = f"{subnet}.1"

    def start(self, port: int) -> None:
        """Start the program of the clients, which will connect to `port` of this machine."""
        script = Path(__file__).with_name("client_churn.py")
        command = ["ip", "netns", "exec", self._name, sys.executable, str(script), self.host, str(port)]
        path = os.pathsep.join(filter(None, [str(script.parent), os.environ.get("PYTHONPATH", "")]))
        self._crowd = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
        )

    def come(self, count: int) -> None:
        """Connect `count` clients from a new address, and wait until each has its answer."""
        self._source = f"{self._subnet}.{next(self._sources)}"
        _run("ip", "-n", self._name, "addr", "add", f"{self._source}/24", "dev", "out")
        self._tell(f"come {count} {self._source}", "here")

    def vanish(self) -> None:
        """Drop all packets of the clients, and then close their connections."""
        _run("ip", "netns", "exec", self._name, "iptables", "-A", "OUTPUT", "-s", self._source, "-j", "DROP")
        self._tell("go", "gone")

    def _tell(self, line: str, answer: str) -> None:
        assert self._crowd is not None
        assert self._crowd.stdin is not None
        assert self._crowd.stdout is not None
        self._crowd.stdin.write(f"{line}\n")
        self._crowd.stdin.flush()
        told = self._crowd.stdout.readline().strip()
        if told != answer:
            raise AssertionError(f"the crowd said {told!r} to {line!r}")

    def stop(self) -> None:
        if self._crowd is not None:
            self._crowd.kill()
            self._crowd.communicate()


@contextlib.contextmanager
def elsewhere() -> Iterator[Elsewhere]:
    """A network namespace that is connected to this machine."""
    number = next(_NUMBERS)
    name = f"fairlead-{os.getpid()}-{number}"
    cable = f"fl{os.getpid() % 10000}x{number}"
    subnet = f"10.213.{number}"
    cabled = Elsewhere(name, subnet)
    _run("ip", "netns", "add", name)
    try:
        _run("ip", "link", "add", cable, "type", "veth", "peer", "name", "out", "netns", name)
        _run("ip", "addr", "add", f"{cabled.host}/24", "dev", cable)
        _run("ip", "link", "set", cable, "up")
        _run("ip", "-n", name, "link", "set", "out", "up")
        yield cabled
    finally:
        cabled.stop()
        _run("ip", "netns", "del", name)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode:
        raise AssertionError(f"{' '.join(words)}: {done.stderr.strip()}")
