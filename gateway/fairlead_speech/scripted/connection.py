"""A client's connection to a scripted provider of speech, with all that it was sent."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web


class ScriptedConnection:
    """Base of a scripted session; says what of it tests and benchmarks wait for."""

    def __init__(self, socket: web.WebSocketResponse, request: web.BaseRequest) -> None:
        self._socket = socket
        self._request = request
        self.headers = {name.lower(): value for name, value in request.headers.items()}
        self.query = dict(request.query)
        self.received: list[dict[str, Any]] = []
        """Messages of the client in their order."""
        self.changed = asyncio.Condition()

    @property
    def closed(self) -> bool:
        """Whether the other side closed it, or is gone."""
        transport = self._request.transport
        return self._socket.closed or transport is None or transport.is_closing()

    @property
    def close_code(self) -> int | None:
        """Code that the connection was closed with; None while it is open."""
        return self._socket.close_code

    def of_type(self, name: str) -> list[dict[str, Any]]:
        """Messages of one type that the client sent."""
        raise NotImplementedError

    async def until(self, name: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait for so many messages of a type."""
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.of_type(name)) >= count)
        return self.of_type(name)
