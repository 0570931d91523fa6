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
    serve_task, stop_event = asyncio.create_task(server.run_stdio_async()), asyncio.Event()
    _on_signals(stop_event)
    stop_task = asyncio.create_task(stop_event.wait())
    await asyncio.wait({serve_task, stop_task}, return_when=asyncio.FIRST_COMPLETED)
    stop_task.cancel()
    if serve_task.done():
        serve_task.result()
        return
    # A thread of the SDK is blocked in a read of standard input, which cannot be interrupted. The lifespan releases the
    # server's resources, then the process exits without joining that thread.
    serve_task.cancel()
    await asyncio.wait({serve_task}, timeout=GRACE_S)
    at_end()
    os._exit(0)


def serve_http(server: MCPServer[Any], host: str, port: int, at_end: Callable[[], None]) -> None:
    """Serve `/mcp` and `/healthz` until SIGTERM or SIGINT. Running requests then have `GRACE_S` seconds to finish;
    `at_end` is called at the end.

    Raises OSError if the address is not available.
    """
    try:
        with listening_socket(host, port) as listener:
            asyncio.run(_http(server, host, listener))
    finally:
        at_end()


def listening_socket(host: str, port: int) -> socket.socket:
    """Listening socket without Nagle's algorithm; at `::` it accepts IPv4 clients too. Raises OSError."""
    if host == EVERY_ADDRESS:
        listener = every_address_socket(port)
        listener.listen()
    else:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    # asyncio sets TCP_NODELAY only on sockets that it creates. Without the option, head and body of a response are two
    # packets, and the second packet waits for the client's delayed acknowledgement: 40 ms per call.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


async def _http(server: MCPServer[Any], host: str, listener: socket.socket) -> None:
    server.custom_route("/healthz", methods=["GET"])(_health)
    config = uvicorn.Config(
        server.streamable_http_app(host=host), log_level="warning", ws="none", timeout_graceful_shutdown=GRACE_S
    )
    stop_event = asyncio.Event()
    _on_signals(stop_event)
    http_server = _WithoutSignals(config)
    serve_task = asyncio.create_task(http_server.serve(sockets=[listener]))
    stop_task = asyncio.create_task(stop_event.wait())
    await asyncio.wait({serve_task, stop_task}, return_when=asyncio.FIRST_COMPLETED)
    stop_task.cancel()
    http_server.should_exit = True
    await serve_task


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


class _WithoutSignals(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do not handle signals: uvicorn's own handler would end the process by SIGTERM instead of exit code 0."""
        yield


def _on_signals(stop_event: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_event.set)
