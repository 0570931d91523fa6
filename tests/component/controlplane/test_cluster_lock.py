"""Two runs of the script that makes a cluster on this machine: the second waits for the first."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

from controlplane import REPOSITORY

CLUSTER = REPOSITORY / "hack" / "kubernetes" / "cluster"


def test_a_verb_that_changes_the_cluster_says_whose_end_it_waits_for(tmp_path: Path) -> None:
    environment = {**os.environ, "KUBE_RUN": str(tmp_path / "kubernetes")}
    with (tmp_path / "cluster.lock").open("w") as lock:
        lock.write("down (process 7)\n")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        words = [str(CLUSTER), "stop", "nothing"]
        with subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True) as second:
            assert second.stderr is not None
            assert second.stderr.readline() == "hack/cluster down (process 7) still runs; waiting for its end\n"
            assert second.poll() is None
            fcntl.flock(lock, fcntl.LOCK_UN)
            assert second.wait(timeout=50) == 0
    assert (tmp_path / "cluster.lock").read_text().startswith("stop (process ")
