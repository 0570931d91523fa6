"""Stock uvicorn protocols for an ASGI application, of which only the public surface is used: the constructor, the
methods of `asyncio.Protocol`, and `shutdown`. Imported with the first request that needs it: with uvicorn come its
command line and its supervisors, 2.5 MB.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.server import ServerState

_NEVER: Final = 1 << 30
"""Seconds after which uvicorn would close an idle connection: the gateway's own deadlines come first."""


class UvicornProtocols:
    """Makes uvicorn protocols for one ASGI application."""

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
        """A protocol for one connection, whose requests have `state` in their scope."""
        made: Any = self._config.http_protocol_class  # a name of a class, or a class, by its type
        return made(config=self._config, server_state=self._state, app_state=state)
