"""Sockets that tool servers listen on."""

from __future__ import annotations

import socket

import pytest

from fairlead_servers.serving import listening_socket


@pytest.mark.parametrize(
    ("host", "client"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "::1"), ("::", "127.0.0.1")]
)
def test_connections_send_each_packet_at_once(host: str, client: str) -> None:
    with listening_socket(host, 0) as listening, socket.create_connection((client, listening.getsockname()[1])):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
