"""The single node of `bench_faults`: its programs, its containers and the network of its pods."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from installation import REPOSITORY, CommandFailed, kubectl, run
from rig.harness import Unmeasurable

CLUSTER: Final = REPOSITORY / "hack" / "cluster"
RUN: Final = Path(os.environ.get("KUBE_RUN", "/var/tmp/fairlead/kubernetes"))  # noqa: S108 - hack/kubernetes/env.sh
Json = dict[str, Any]


def container(pod: Json) -> str:
    """Id of a pod's first container."""
    return str(pod["status"]["containerStatuses"][0]["containerID"]).removeprefix("containerd://")


def kill(pod: Json) -> float:
    """Kill a pod's container with SIGKILL, as the kernel does when memory runs out. Returns the time of the kill."""
    pid = int(pid_of(pod))  # determined before, so that the time of the kill is exact
    os.kill(pid, signal.SIGKILL)
    return time.time()


def ctr(*words: str) -> str:
    """Output of a command of the node's containerd."""
    return run("ctr", "--address", RUN / "containerd.sock", "--namespace", "k8s.io", *words)


def stop(*names: str) -> None:
    """Stop programs of the cluster with SIGTERM."""
    run(CLUSTER, "stop", *names)


def crash(name: str) -> None:
    """Kill a program of the cluster with SIGKILL."""
    os.kill(int((RUN / "pid" / name).read_text()), signal.SIGKILL)
    stop(name)


def pid_of(pod: Json) -> str:
    """Process id of a pod's first container, on this machine."""
    rows = [line.split() for line in ctr("tasks", "list").splitlines()]
    return next(row[1] for row in rows if row[0] == container(pod))


def cut(pod: Json, address: str, *, back: bool = False) -> None:
    """Drop all packets from a pod to an address, or stop dropping them."""
    verb = "-D" if back else "-I"
    run("nsenter", "--net", f"--target={pid_of(pod)}", "iptables", verb, "OUTPUT", "-d", address, "-j", "DROP")


def api_is_ready(*words: str) -> bool:
    """Whether `kubectl` with these arguments finds the API server ready."""
    try:
        return kubectl("get", "--raw", "/readyz", "--request-timeout=1s", *words) == "ok"
    except CommandFailed:
        return False


def until(what: str, holds: Callable[[], bool], seconds: float) -> None:
    """Wait for a condition. Raises Unmeasurable when time is up."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise Unmeasurable(f"{what} did not come within {seconds:g} s")
        time.sleep(0.3)
