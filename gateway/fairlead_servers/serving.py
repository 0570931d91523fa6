"""Serves one tool server on stdio, or over HTTP with `/mcp` and `/healthz`."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
from mcp.server import MCPServer
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fairlead_mcp.addresses import EVERY_ADDRESS
from fairlead_mcp.listening import every_address_socket

GRACE_S: Final = 5
"""Seconds that running requests have to finish after SIGTERM, before open event streams are closed."""


def serve_stdio(server: MCPServer[Any], at_end: Callable[[], None]) -> None:
    """Serve until the client closes standard input, or until SIGTERM or SIGINT. `at_end` is called at the end."""
    try:
        asyncio.run(_stdio(server, at_end))
    finally:
        at_end()


async def _stdio(server: MCPServer[Any], at_end: Callable[[], None]) -> None:
    serving, stopped = asyncio.create_task(server.run_stdio_async()), asyncio.Event()
    _on_signals(stopped)
    stopping = asyncio.create_task(stopped.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if serving.done():
        serving.result()
        return
    # A thread of the SDK is blocked in a read of standard input, which cannot be interrupted. The lifespan releases the
    # server's resources, then the process exits without joining that thread.
    serving.cancel()
    await asyncio.wait({serving}, timeout=GRACE_S)
    at_end()
    os._exit(0)


def serve_http(server: MCPServer[Any], host: str, port: int, at_end: Callable[[], None]) -> None:
    """Serve `/mcp` and `/healthz` until SIGTERM or SIGINT. Running requests then have `GRACE_S` seconds to finish;
    `at_end` is called at the end.

    Raises OSError if the address is not available.
    """
    try:
        with listening_socket(host, port) as listening:
            asyncio.run(_http(server, host, listening))
    finally:
        at_end()


def listening_socket(host: str, port: int) -> socket.socket:
    """Listening socket without Nagle's algorithm; at `::` it accepts IPv4 clients too. Raises OSError."""
    if host == EVERY_ADDRESS:
        listening = every_address_socket(port)
        listening.listen()
    else:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    # asyncio sets TCP_NODELAY only on sockets that it creates. Without the option, head and body of a response are two
    # packets, and the second packet waits for the client's delayed acknowledgement: 40 ms per call.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


async def _http(server: MCPServer[Any], host: str, listening: socket.socket) -> None:
    server.custom_route("/healthz", methods=["GET"])(_health)
    config = uvicorn.Config(
        server.streamable_http_app(host=host), log_level="warning", ws="none", timeout_graceful_shutdown=GRACE_S
    )
    stopped = asyncio.Event()
    _on_signals(stopped)
    web = _WithoutSignals(config)
    serving = asyncio.create_task(web.serve(sockets=[listening]))
    stopping = asyncio.create_task(stopped.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    web.should_exit = True
    await serving


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


class _WithoutSignals(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do not handle signals: uvicorn's own handler would end the process by SIGTERM instead of exit code 0."""
        yield


def _on_signals(stopped: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
