"""Feed that tells any number of listeners which grants were written or deleted."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator

from fairlead_mcp.oauth.stored_grant import GrantKey


class ChangeFeed:
    """Passes changed keys to all listeners. Belongs to one event loop."""

    def __init__(self) -> None:
        self._listeners: weakref.WeakSet[_Listener] = weakref.WeakSet()
        self._closed = False

    def publish(self, key: GrantKey) -> None:
        for listener in list(self._listeners):
            listener.add(key)

    def listen(self) -> AsyncIterator[GrantKey]:
        """Yield keys that change from now on. A key that changes repeatedly before it is read is yielded once. Ends
        with the feed.
        """
        listener = _Listener()
        if self._closed:
            listener.end()
        self._listeners.add(listener)
        return listener

    def close(self) -> None:
        self._closed = True
        for listener in list(self._listeners):
            listener.end()


class _Listener(AsyncIterator[GrantKey]):
    """Changed keys of one listener. Each key is stored once until it is read, so their number is bounded."""

    def __init__(self) -> None:
        self._changed: dict[GrantKey, None] = {}
        self._ended = False
        self._wake = asyncio.Event()

    def add(self, key: GrantKey) -> None:
        self._changed[key] = None
        self._wake.set()

    def end(self) -> None:
        self._ended = True
        self._wake.set()

    async def __anext__(self) -> GrantKey:
        while not self._changed:
            if self._ended:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        key = next(iter(self._changed))
        del self._changed[key]
        return key
