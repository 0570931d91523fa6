"""Sockets of another user of this machine, which only root can open."""

from __future__ import annotations

import os
import socket
from typing import Final

import pytest

NOBODYS_UID: Final = 65_534
as_another_user = pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can open a socket as another user"
)


def foreign_socket() -> socket.socket:
    """A TCP socket owned by NOBODYS_UID: a socket keeps the user who opened it."""
    os.seteuid(NOBODYS_UID)
    try:
        return socket.socket()
    finally:
        os.seteuid(0)
