"""The operator as a separate process, for tests that kill it or read its output."""

from __future__ import annotations

import os
import subprocess

from forkserver import FORKED, start_server


def start(**environment: str) -> subprocess.Popen[str]:
    """Start it with little more than `environment`. Its output is a pipe."""
    start_server()
    inherited = {name: os.environ[name] for name in ("PATH", "LANG", "VIRTUAL_ENV") if name in os.environ}
    return subprocess.Popen(
        [*FORKED, "-m", "fairlead_operator"],
        env={**inherited, "HOME": "/nonexistent", "FAIRLEAD_METRICS_HOST": "127.0.0.1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
