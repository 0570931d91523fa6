"""Base of stores that have to look for the changes of other processes themselves."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Coroutine, Sequence

from fairlead_gateway.grants.change_feed import ChangeFeed
from fairlead_gateway.grants.store import ClosableGrantStore
from fairlead_mcp.oauth.stored_grant import GrantKey


class NoticingGrantStore(ClosableGrantStore):
    """Store whose changes come from a feed. The first listener starts the search for changes of other processes."""

    def __init__(self) -> None:
        self._feed = ChangeFeed()
        self._noticing: list[asyncio.Task[None]] = []

    @abstractmethod
    def _begin_to_notice(self) -> Sequence[Coroutine[object, object, None]]:
        """Publish the keys that other processes change from now on. Never returns."""

    def changes(self, *, deletions: bool = False) -> AsyncIterator[GrantKey]:
        if not self._noticing:
            loop = asyncio.get_running_loop()
            self._noticing = [loop.create_task(work, name="changes of grants") for work in self._begin_to_notice()]
        return self._feed.listen(deletions=deletions)

    async def aclose(self) -> None:
        self._feed.close()
        for task in self._noticing:
            task.cancel()
        await asyncio.gather(*self._noticing, return_exceptions=True)
