"""Feed of the grants that were written or deleted, for any number of listeners."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator

from fairlead_mcp.oauth.stored_grant import GrantKey


class ChangeFeed:
    """Passes changed keys to all listeners. Belongs to one event loop."""

    def __init__(self) -> None:
        self._listeners: weakref.WeakSet[_Listener] = weakref.WeakSet()
        self._is_closed = False

    def publish(self, key: GrantKey, *, written: bool) -> None:
        """Pass a key to all listeners. `written`: the grant was written; otherwise it was deleted."""
        for listener in list(self._listeners):
            if not (written and listener.deletions):
                listener.add(key)

    def listen(self, *, deletions: bool = False) -> AsyncIterator[GrantKey]:
        """Keys that change from now on, until the feed is closed. Several changes of a key that was not taken yet are
        one. With `deletions`, only keys of deleted grants.
        """
        listener = _Listener(deletions)
        if self._is_closed:
            listener.end()
        self._listeners.add(listener)
        return listener

    def close(self) -> None:
        self._is_closed = True
        for listener in list(self._listeners):
            listener.end()


class _Listener(AsyncIterator[GrantKey]):
    """Changed keys of one listener. A key is stored at most once, which limits the memory."""

    def __init__(self, deletions: bool) -> None:
        self.deletions = deletions
        self._changed_keys: dict[GrantKey, None] = {}
        self._has_ended = False
        self._wake = asyncio.Event()

    def add(self, key: GrantKey) -> None:
        self._changed_keys[key] = None
        self._wake.set()

    def end(self) -> None:
        self._has_ended = True
        self._wake.set()

    async def __anext__(self) -> GrantKey:
        while not self._changed_keys:
            if self._has_ended:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        key = next(iter(self._changed_keys))
        del self._changed_keys[key]
        return key
