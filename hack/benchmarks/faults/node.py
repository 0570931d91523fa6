"""The one node of `bench_faults`: its programs, its containers and the network inside of its pods."""

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
    """End a pod's container without a word, as the kernel does when memory is short; when that was."""
    pid = int(pid_of(pod))  # known before, so that the moment is exact
    os.kill(pid, signal.SIGKILL)
    return time.time()


def ctr(*words: str) -> str:
    """Output of a command of the node's containerd."""
    return run("ctr", "--address", RUN / "containerd.sock", "--namespace", "k8s.io", *words)


def stop(*names: str) -> None:
    """End programs of the cluster."""
    run(CLUSTER, "stop", *names)


def crash(name: str) -> None:
    """End a program of the cluster without a word."""
    os.kill(int((RUN / "pid" / name).read_text()), signal.SIGKILL)
    stop(name)


def pid_of(pod: Json) -> str:
    """Process id of a pod's first container, on this machine."""
    rows = [line.split() for line in ctr("tasks", "list").splitlines()]
    return next(row[1] for row in rows if row[0] == container(pod))


def cut(pod: Json, address: str, *, back: bool = False) -> None:
    """Nothing that a pod sends to an address arrives, or does again."""
    verb = "-D" if back else "-I"
    run("nsenter", "--net", f"--target={pid_of(pod)}", "iptables", verb, "OUTPUT", "-d", address, "-j", "DROP")


def api_is_ready(*words: str) -> bool:
    """As `kubectl` with these words sees it."""
    try:
        return kubectl("get", "--raw", "/readyz", "--request-timeout=1s", *words) == "ok"
    except CommandFailed:
        return False


def until(what: str, holds: Callable[[], bool], seconds: float) -> None:
    """Raises Unmeasurable."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise Unmeasurable(f"{what} did not come within {seconds:g} s")
        time.sleep(0.3)
