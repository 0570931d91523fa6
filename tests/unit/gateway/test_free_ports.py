"""Ports that are proposed in place of ports in use."""

from __future__ import annotations

import socket

import pytest

from fairlead_gateway.endpoint.free_ports import suggest_ports
from ports import free_port


def test_ports_that_are_proposed_are_free_and_differ() -> None:
    ports = [free_port(), free_port()]  # meanwhile, the kernel may give neighboring ports to any connection
    with socket.create_server(("127.0.0.1", ports[0])), socket.create_server(("127.0.0.1", ports[1])):
        words = suggest_ports("127.0.0.1", {"--port": ports[0], "--metrics-port": ports[1]}).split()
        assert (words[0], words[2], words[4:]) == ("--port", "--metrics-port", ["are", "free"])
        proposed = [int(words[1]), int(words[3])]
        assert len({*proposed, *ports}) == 4
        for port in proposed:
            socket.create_server(("127.0.0.1", port)).close()


def test_only_the_port_that_is_taken_is_replaced() -> None:
    with socket.socket() as taken, socket.socket() as free:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        free.bind(("127.0.0.1", 0))
        other = free.getsockname()[1]
        free.close()
        advice = suggest_ports("127.0.0.1", {"--port": taken.getsockname()[1], "--metrics-port": other})
        assert advice.startswith("--port ")
        assert advice.endswith(" is free")
        assert "--metrics-port" not in advice


def test_a_port_without_a_free_neighbour_gets_any_other() -> None:
    with socket.socket() as last:
        try:
            last.bind(("127.0.0.1", 65535))
        except OSError:
            pytest.skip("port 65535 is somebody else's")
        last.listen()
        assert 0 < int(suggest_ports("127.0.0.1", {"--port": 65535}).split()[1]) < 65535
