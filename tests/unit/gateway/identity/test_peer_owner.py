"""User who owns the process at the other end of a local connection, according to Linux."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fairlead_gateway.core.request import FORWARDED, is_forwarded
from fairlead_gateway.identity.peer_owner import NOBODY, is_by_owner, peer_owner
from otherusers import NOBODYS_UID, as_another_user, foreign_socket

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose a connection is")


@contextmanager
def listening(host: str) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        yield server


@pytest.mark.parametrize(
    ("host", "family", "to"),
    [
        ("127.0.0.1", socket.AF_INET, "127.0.0.1"),
        ("127.0.0.1", socket.AF_INET6, "::ffff:127.0.0.1"),
        ("::1", socket.AF_INET6, "::1"),
    ],
)
def test_a_connection_of_this_user_is_told(host: str, family: int, to: str) -> None:
    with listening(host) as server, socket.socket(family) as client:
        client.connect((to, server.getsockname()[1]))
        accepted, peer = server.accept()
        with accepted:
            assert peer_owner(peer[:2], accepted.getsockname()[:2]) == os.getuid()
            assert is_by_owner(peer[:2], accepted.getsockname()[:2])


def test_a_connection_whose_process_has_gone_is_nobodys() -> None:
    with listening("127.0.0.1") as server:
        client = socket.create_connection(server.getsockname())
        accepted, peer = server.accept()
        with accepted:
            client.close()
            assert peer_owner(peer, accepted.getsockname()) == NOBODY
            assert not is_by_owner(peer, accepted.getsockname())
            assert peer_owner(("127.0.0.1", 1), ("127.0.0.1", 2)) == NOBODY


@as_another_user
def test_a_connection_of_another_user_is_not_the_owners() -> None:
    with listening("127.0.0.1") as server, foreign_socket() as client:
        client.connect(server.getsockname())
        accepted, peer = server.accept()
        with accepted:
            assert peer_owner(peer, accepted.getsockname()) == NOBODYS_UID
            assert not is_by_owner(peer, accepted.getsockname())


@pytest.mark.parametrize("name", FORWARDED)
def test_a_request_that_a_proxy_forwards_is_told(name: bytes) -> None:
    assert is_forwarded({b"host": b"127.0.0.1", name: b"x"})
    assert not is_forwarded({b"host": b"127.0.0.1"})
