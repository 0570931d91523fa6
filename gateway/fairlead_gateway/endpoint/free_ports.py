"""Suggests free ports in place of ports that are in use, for error messages. A port is tested by binding it."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Final

PORTS_TRIED: Final = 100
"""Number of subsequent ports that are tried before the kernel chooses a port."""
_LAST_PORT: Final = 65535


def suggest_ports(host: str, ports: Mapping[str, int]) -> str:
    """Advice for an error message: a free port for each command-line option whose port is in use.

    `ports` are the ports by option; 0 stands for any port.
    """
    free_ports: dict[str, int] = {}
    for option, port in ports.items():
        if port and not _is_free(host, port):
            free_ports[option] = _free_near(host, port, {*ports.values(), *free_ports.values()})
    options = " ".join(f"{option} {port}" for option, port in free_ports.items())
    if not options:
        return "try again: the port is free now"
    return f"{options} {'is' if len(free_ports) == 1 else 'are'} free"


def _free_near(host: str, port: int, excluded_ports: set[int]) -> int:
    for candidate in range(port + 1, min(port + PORTS_TRIED, _LAST_PORT) + 1):
        if candidate not in excluded_ports and _is_free(host, candidate):
            return candidate
    with _socket(host) as any_port:
        any_port.bind((host, 0))
        number: int = any_port.getsockname()[1]
        return number


def _is_free(host: str, port: int) -> bool:
    try:
        with _socket(host) as candidate:
            candidate.bind((host, port))
            candidate.listen()  # with SO_REUSEADDR two sockets can bind a port, but only one can listen
    except OSError:
        return False
    return True


def _socket(host: str) -> socket.socket:
    new_socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    new_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return new_socket
