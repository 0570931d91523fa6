"""Reviews each changed grant, here or at another replica.

A change that the store tells of, but then does not answer about, is looked at again until it does: otherwise a token of
an ended grant would be used until it expires.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore

RETRY_SECONDS: Final = 1.0
"""Time until changes are looked at again after the store has not answered."""


class ReviewedChanges:
    """Watches `store`, from `start` to `aclose`. `review` returns whether it is done with a key, and raises nothing;
    `pause` waits for some seconds.
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
        """`deletions`: grants that were written are not reviewed."""
        self._store = store
        self._review = review
        self._name = name
        self._pause = pause
        self._deletions = deletions
        self._unknown: dict[GrantKey, None] = {}
        """Changed grants about which the store has not answered yet, the oldest first."""
        self._waiting = asyncio.Event()
        """Set while there are such."""
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        loop, changes = asyncio.get_running_loop(), self._store.changes(deletions=self._deletions)
        self._tasks = [
            loop.create_task(self._watch(changes), name=self._name),
            loop.create_task(self._ask_again(), name=f"{self._name}, once more"),
        ]

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch(self, changes: AsyncIterator[GrantKey]) -> None:
        async for key in changes:
            if not await self._review(key):
                self._unknown[key] = None
                self._waiting.set()

    async def _ask_again(self) -> None:
        while True:
            await self._waiting.wait()
            await self._pause(RETRY_SECONDS)
            for key in [*self._unknown]:
                del self._unknown[key]
                if not await self._review(key):
                    self._unknown[key] = None  # after the others, as it alone may be at fault
                    break
            if not self._unknown:
                self._waiting.clear()
