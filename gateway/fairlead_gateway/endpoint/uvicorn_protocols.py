"""Creates uvicorn protocols for an ASGI application.

Only the public interface of these protocols is used: the constructor, the methods of `asyncio.Protocol`, and
`shutdown`. This module is imported at the first request that needs it, because importing uvicorn, with its command line
and supervisors, takes 2.5 MB.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.server import ServerState

_NEVER: Final = 1 << 30
"""Idle timeout for uvicorn, in seconds. It never applies, because the gateway has its own idle timeout."""


class UvicornProtocols:
    """Factory of uvicorn protocols for one ASGI application."""

    def __init__(self, app: ASGIApp) -> None:
        self._config = Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            interface="asgi3",
            loop="none",
            log_config=None,
            access_log=False,
            date_header=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_NEVER,
        )
        self._config.load()
        self._state = ServerState()
        self.tasks: set[asyncio.Task[None]] = self._state.tasks
        """Requests in progress in the application."""

    def new(self, **state: object) -> Any:
        """A new protocol for one connection, whose requests have `state` in their ASGI scope."""
        # uvicorn declares the attribute as a class or the name of a class; after `load` it is a class
        protocol_class: Any = self._config.http_protocol_class
        return protocol_class(config=self._config, server_state=self._state, app_state=state)
