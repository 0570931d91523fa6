"""The operator as a separate process, for tests that kill it or read its output."""

from __future__ import annotations

import os
import subprocess
import sys


def start(**environment: str) -> subprocess.Popen[str]:
    """Start it with little more than `environment`. Its output is a pipe."""
    inherited = {name: os.environ[name] for name in ("PATH", "LANG", "VIRTUAL_ENV") if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-m", "fairlead_operator"],
        env={**inherited, "HOME": "/nonexistent", "FAIRLEAD_METRICS_HOST": "127.0.0.1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
