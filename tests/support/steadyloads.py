"""Starts `steadyload`, outside of the cluster as a process and inside as a pod, and reads its results."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fairlead_mcp.addresses import authority
from installation import DEMO, POD_IP, apply, kubectl, read
from ports import free_port, listens
from waiting import until

SCRIPT: Final = Path(__file__).with_name("steadyload.py")
POD_PORT: Final = 9300

Json = dict[str, Any]


@dataclass
class Told:
    """Results of one load since some time; see `steadyload`."""

    where: str
    calls: int = 0
    good: int = 0
    in_flight: int = 0
    open_then: int = 0
    reconnects: int = 0
    p50_ms: float = 0.0
    longest_ms: float = 0.0
    longest_by_tool_ms: dict[str, float] = field(default_factory=dict)
    bad: list[Json] = field(default_factory=list)


@dataclass(frozen=True)
class Load:
    """A running load. `host` and `port` serve its results."""

    where: str
    host: str
    port: int

    def report(self, since: float, at: float = 0.0) -> Told:
        """Results of calls that began at `since` or later, in seconds of the wall clock. Raises OSError."""
        url = f"http://{authority(self.host, self.port)}/?since={since}&at={at}"
        with urllib.request.urlopen(url, timeout=20) as answer:
            return Told(self.where, **json.load(answer))

    def await_settled(self, since: float, *, busy: int, seconds: float = 35.0) -> Told:
        """Like `told`, after at most `busy` calls are still running, so that all earlier calls have ended."""
        end = time.monotonic() + seconds
        while (told := self.report(since)).in_flight > busy and time.monotonic() < end:
            time.sleep(0.3)
        return told


def _words(url: str, era: str, rate: float, tools: Sequence[str], listen: str) -> list[str]:
    named = [word for tool in tools for word in ("--tool", tool)]
    return ["--url", url, "--era", era, "--rate", str(rate), *named, "--listen", listen]


@contextmanager
def outside(where: str, url: str, *, era: str, rate: float, tools: Sequence[str]) -> Iterator[Load]:
    """Run the load as a process on this machine."""
    port = free_port()
    words = _words(url, era, rate, tools, f"127.0.0.1:{port}")
    process = subprocess.Popen([sys.executable, str(SCRIPT), *words])
    try:
        until("the load to listen", lambda: listens(port))
        yield Load(where, "127.0.0.1", port)
    finally:
        process.terminate()
        process.wait(10)


def inside(where: str, url: str, *, namespace: str, era: str, rate: float, tools: Sequence[str]) -> Load:
    """Run the load as a pod, which is deleted with its namespace. Its results are read at the pod's address, so this
    machine has to be the node.
    """
    command = ["python", "-u", "/load/steadyload.py", *_words(url, era, rate, tools, f"$(POD_IP):{POD_PORT}")]
    container = {
        "name": "load",
        "image": DEMO,
        "imagePullPolicy": "Never",
        "command": command,
        "env": [POD_IP],
        "resources": {"requests": {"cpu": "100m"}},  # without the request, the load stops while other pods start
        "volumeMounts": [{"name": "load", "mountPath": "/load"}],
        "readinessProbe": {"tcpSocket": {"port": POD_PORT}, "periodSeconds": 1},
    }
    named = {"name": "load", "namespace": namespace}
    volume = {"name": "load", "configMap": {"name": "load"}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, "volumes": [volume]}
    apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": {"steadyload.py": SCRIPT.read_text()}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": spec},
    )
    kubectl("wait", "-n", namespace, "--for=condition=Ready", "pod/load", "--timeout=60s", seconds=70)
    return Load(where, read("pod", "-n", namespace, "load")["status"]["podIP"], POD_PORT)
