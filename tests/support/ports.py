"""Ports for programs that need a fixed port, such as a server that a test starts, stops and starts again.

A port stays claimed until the process that requested it ends, or has requested a thousand other ports, because the
program for the port may not listen yet, or be down for a while. Claims are locks of single bytes of one file. They
therefore apply to all runs of tests on a machine, and need no cleaning up.
"""

from __future__ import annotations

import fcntl
import functools
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import Final

PORTS: Final = range(20000, 32000)
"""Ports below the range from which the kernel selects for port 0."""
MOST: Final = 1000
_CLAIMED: Final[dict[int, None]] = {}
"""Claimed ports, in the order in which they were given out."""


@functools.cache
def _claims(process: int) -> int:
    """Descriptor of the file whose bytes are locked, opened once per process: closing it would release its locks."""
    return os.open(Path(tempfile.gettempdir()) / f"fairlead-test-ports-{os.getuid()}", os.O_RDWR | os.O_CREAT, 0o600)


def _claim(port: int) -> bool:
    """Claim a port. Returns whether no other process has it."""
    try:
        fcntl.lockf(_claims(os.getpid()), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def free_port(among: range = PORTS) -> int:
    """Claim a port of 127.0.0.1 on which nothing listens, and which neither port 0 nor another test can yield.

    Raises RuntimeError if all ports are taken.
    """
    first = random.randrange(len(among))
    in_turn: list[int] = [*among[first:], *among[:first]]
    for port in in_turn:
        if port in _CLAIMED or not _claim(port):
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _CLAIMED[port] = None
        if len(_CLAIMED) > MOST:
            oldest = next(iter(_CLAIMED))
            del _CLAIMED[oldest]
            fcntl.lockf(_claims(os.getpid()), fcntl.LOCK_UN, 1, oldest)
        return port
    raise RuntimeError(f"no free port between {among.start} and {among.stop}")


def listens(port: int) -> bool:
    """Whether a server accepts connections on a port of 127.0.0.1."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
