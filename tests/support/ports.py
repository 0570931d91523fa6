"""Ports of programs that have to be told theirs: a server that a test starts, stops and starts again."""

from __future__ import annotations

import random
import socket

# Below the range that the kernel hands out for port 0: a port is kept while its program is down for a while.
_PORTS = range(20000, 32000)


def free_port() -> int:
    """A port on 127.0.0.1 that nothing listens on now and that port 0 never yields."""
    for port in random.sample(_PORTS, 200):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port between 20000 and 32000")


def listens(port: int) -> bool:
    """Whether something takes connections on a port of 127.0.0.1."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
