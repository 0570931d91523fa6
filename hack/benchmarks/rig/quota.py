"""A part of a core for a process, by control groups: how replicas are compared where there are no cores to spare.

Linux, root. Both versions of control groups; each group is removed by its maker.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from rig.processes import become_ordinary

PERIOD = 20_000
"""Microseconds. The kernel's default is five times as long, which delays answers."""
V1 = Path("/sys/fs/cgroup/cpu")
V2 = Path("/sys/fs/cgroup")


class NoQuota(Exception):
    """This machine does not permit quotas; the message says why."""


class Quota:
    """A control group with `share` of a core. Raises NoQuota."""

    def __init__(self, share: float) -> None:
        first = V1 if (V1 / "cpu.cfs_quota_us").exists() else V2
        self._group = first / f"fairlead-bench-{os.getpid()}-{id(self)}"
        quota = round(PERIOD * share)
        try:
            self._group.mkdir()
            if first is V1:
                (self._group / "cpu.cfs_period_us").write_text(str(PERIOD))
                (self._group / "cpu.cfs_quota_us").write_text(str(quota))
            else:
                (self._group / "cpu.max").write_text(f"{quota} {PERIOD}")
        except OSError as error:
            self.remove()
            raise NoQuota(f"a part of a core cannot be given ({error.strerror})") from error

    def take(self, pid: int) -> None:
        """Add a process. Its real-time priority is removed, because real-time processes have no shares."""
        become_ordinary(pid)
        (self._group / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        """Move all processes out and remove the group."""
        if not self._group.exists():
            return
        for pid in (self._group / "cgroup.procs").read_text().split():
            (self._group.parent / "cgroup.procs").write_text(pid)
        for _ in range(50):
            try:
                self._group.rmdir()
            except OSError:
                time.sleep(0.02)
            else:
                return
