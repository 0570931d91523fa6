"""Ports of programs that have to be told theirs: a server that a test starts, stops and starts again."""

from __future__ import annotations

import os
import random
import socket
from collections import deque
from typing import Final

_LATELY: Final[deque[int]] = deque(maxlen=1000)
"""Ports that were given out, of programs that may not listen yet or are down for a while."""


def ports_of(worker: str, workers: int) -> range:
    """Ports of one of the processes that run tests side by side (pytest-xdist names them `gw0`, `gw1`, …), so that none
    takes a port which another gave to a program that does not listen just now. Below the range that the kernel hands
    out for port 0.
    """
    return range(20000 + int(worker.removeprefix("gw")), 32000, workers)


def free_port() -> int:
    """A port on 127.0.0.1 that nothing listens on now, and that neither port 0 nor other tests yield."""
    environment = os.environ
    ports = ports_of(
        environment.get("PYTEST_XDIST_WORKER", "gw0"), int(environment.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    )
    for port in random.sample(ports, min(len(ports), len(_LATELY) + 200)):
        if port in _LATELY:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _LATELY.append(port)
        return port
    raise RuntimeError("no free port between 20000 and 32000")


def listens(port: int) -> bool:
    """Whether something takes connections on a port of 127.0.0.1."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
