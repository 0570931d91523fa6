"""The operator as a process of its own, for tests that end it or read what it says."""

from __future__ import annotations

import os
import subprocess
import sys


def start(**environment: str) -> subprocess.Popen[str]:
    """`environment` and little else; its output is piped."""
    inherited = {name: os.environ[name] for name in ("PATH", "LANG", "VIRTUAL_ENV") if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-m", "fairlead_operator"],
        env={**inherited, "HOME": "/nonexistent", "FAIRLEAD_METRICS_HOST": "127.0.0.1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
