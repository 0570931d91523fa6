"""Advice of `fairlead up` about a port that it may not listen on."""

from __future__ import annotations

import asyncio
import errno
from typing import cast

import pytest

from fairlead_app.gateway import Gateway
from fairlead_cli.failure import Failure
from fairlead_cli.up.command import UpOptions, _start
from fairlead_gateway.endpoint.listener import PortTaken


class RefusedGateway:
    """A gateway that may not listen on one of its ports."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def start(self) -> None:
        error = PermissionError(errno.EACCES, "Permission denied")
        raise PortTaken.from_error(error, "127.0.0.1", self._port) from error


@pytest.mark.parametrize(
    ("port", "metrics_port", "refused", "option"),
    [
        (80, 9090, 80, "--port"),
        (8080, 90, 90, "--metrics-port"),
        (180, 80, 180, "--port"),
        (80, 80, 80, "--port"),
    ],
)
def test_the_option_of_the_refused_port_is_named(port: int, metrics_port: int, refused: int, option: str) -> None:
    gateway = cast("Gateway", RefusedGateway(refused))
    with pytest.raises(Failure, match=f"choose a port of 1024 or above with {option}$"):
        asyncio.run(_start(gateway, UpOptions(port=port, metrics_port=metrics_port)))
