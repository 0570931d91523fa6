"""Work for a `ProcessSlot`: writes its process id to a folder, and then does the requested work."""

from __future__ import annotations

import json
import os
import resource
import time
from pathlib import Path


def work(given: bytes) -> bytes:
    """Write a file named after this process's id; then `hold`, `spin` or `grow`, or return the process's limits."""
    task = json.loads(given)
    (Path(task["folder"]) / str(os.getpid())).touch()
    match task["do"]:
        case "hold":
            time.sleep(3600)
        case "spin":
            while True:
                pass
        case "grow":
            return bytes(task["bytes"])
    return json.dumps([resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_CPU)]).encode()
