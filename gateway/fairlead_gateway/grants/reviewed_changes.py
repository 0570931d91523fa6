"""Reviews each changed grant, whether it changed here or at another replica.

If the store cannot be read after it has reported a change, the review is repeated until the store can be read.
Otherwise, a token of an ended grant would be used until it expires.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore

RETRY_SECONDS: Final = 1.0
"""Seconds until changes are reviewed again after the store did not answer."""


class ReviewedChanges:
    """Watches `store`, from `start` to `aclose`. `review` returns False if it has to be repeated later, and never
    raises. `pause` waits for a number of seconds.
    """

    def __init__(
        self,
        store: GrantStore,
        review: Callable[[GrantKey], Awaitable[bool]],
        name: str,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
        *,
        deletions: bool = False,
    ) -> None:
        """`deletions`: review only deleted grants."""
        self._store = store
        self._review = review
        self._name = name
        self._pause = pause
        self._deletions = deletions
        self._unreviewed_keys: dict[GrantKey, None] = {}
        """Changed grants that could not be reviewed yet, oldest first."""
        self._has_unreviewed = asyncio.Event()
        """Set while `_unreviewed_keys` has entries."""
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        loop, changes = asyncio.get_running_loop(), self._store.changes(deletions=self._deletions)
        self._tasks = [
            loop.create_task(self._watch(changes), name=self._name),
            loop.create_task(self._review_again(), name=f"{self._name}, once more"),
        ]

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch(self, changes: AsyncIterator[GrantKey]) -> None:
        async for key in changes:
            if not await self._review(key):
                self._unreviewed_keys[key] = None
                self._has_unreviewed.set()

    async def _review_again(self) -> None:
        while True:
            await self._has_unreviewed.wait()
            await self._pause(RETRY_SECONDS)
            for key in [*self._unreviewed_keys]:
                del self._unreviewed_keys[key]
                if not await self._review(key):
                    self._unreviewed_keys[key] = None  # at the end, because only this grant may be unreadable
                    break
            if not self._unreviewed_keys:
                self._has_unreviewed.clear()
