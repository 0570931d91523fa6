"""Base class of stores that have to watch for changes of other processes."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Coroutine, Sequence

from fairlead_gateway.grants.change_feed import ChangeFeed
from fairlead_gateway.grants.store import ClosableGrantStore
from fairlead_mcp.oauth.stored_grant import GrantKey


class WatchingGrantStore(ClosableGrantStore):
    """Store whose changes come from a feed. The first listener starts the search for changes of other processes."""

    def __init__(self) -> None:
        self._feed = ChangeFeed()
        self._watch_tasks: list[asyncio.Task[None]] = []

    @abstractmethod
    def _start_watching(self) -> Sequence[Coroutine[object, object, None]]:
        """Begin to watch for changes of other processes. Returns coroutines that publish the changed keys and never
        return.
        """

    def changes(self, *, deletions: bool = False) -> AsyncIterator[GrantKey]:
        if not self._watch_tasks:
            loop = asyncio.get_running_loop()
            self._watch_tasks = [loop.create_task(work, name="changes of grants") for work in self._start_watching()]
        return self._feed.listen(deletions=deletions)

    async def aclose(self) -> None:
        self._feed.close()
        for task in self._watch_tasks:
            task.cancel()
        await asyncio.gather(*self._watch_tasks, return_exceptions=True)
