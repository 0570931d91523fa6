"""The command line of this installation's `fairlead`, for entries of clients that start programs."""

from __future__ import annotations

import sys
from pathlib import Path


def own_program() -> tuple[str, ...]:
    """The command line of this `fairlead` with an absolute path: a client's PATH may differ from a terminal's."""
    script = Path(sys.executable).with_name("fairlead")
    return (str(script),) if script.exists() else (sys.executable, "-m", "fairlead_cli")
