"""Rejects the access tokens of sessions that ended: here, at another replica within a second, or before the start."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from fairlead_authorization.sessions import session_ends
from fairlead_authorization.sessions.session_record import session_id_of
from fairlead_gateway.grants.reviewed_changes import ReviewedChanges
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, GrantStoreError, UnreadableGrant

log = logging.getLogger(__name__)

START_SECONDS: Final = 5.0
"""Time limit of the first read of the store. After it, tokens are accepted although the store was not read."""
AGAIN_SECONDS: Final = 5.0
"""Time until the store is read again: it reports changes only from some moments after its first answer."""
LOOKS: Final = 2
"""Number of reads that the store has to answer."""


class EndedSessions:
    """Watches `store`, from `start` to `aclose`. `end` rejects the tokens of a session, `pause` waits for seconds."""

    def __init__(
        self,
        store: GrantStore,
        end: Callable[[str], None],
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._end = end
        self._pause = pause
        # a sign-in writes six times, and to read each of them again, at all replicas, was a sixth of its cost
        self._changes = ReviewedChanges(store, self._review, "ended sessions", pause, deletions=True)
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Watch the store from now on, and reject the tokens of sessions that have ended before."""
        self._changes.start()
        left = LOOKS
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._look()
            left -= 1
        except (GrantStoreError, TimeoutError) as error:
            log.warning("Tokens of sessions that ended before the start are accepted for now: %s", error)
        self._looking = asyncio.get_running_loop().create_task(self._look_again(left), name="sessions ended before")

    async def aclose(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self._changes.aclose()

    async def _look(self) -> None:
        """Reject the tokens of all sessions whose end is remembered. Raises GrantStoreError."""
        for key, _ in await self._store.of_person(b""):
            if key.server.startswith(session_ends.PREFIX):
                self._end(key.server.removeprefix(session_ends.PREFIX))

    async def _look_again(self, left: int) -> None:
        """Read the store until it has answered the remaining number of times."""
        while left:
            await self._pause(AGAIN_SECONDS)
            with contextlib.suppress(GrantStoreError):
                await self._look()
                left -= 1

    async def _review(self, key: GrantKey) -> bool:
        """Reject the tokens of a changed session if it has ended; False if that is not known."""
        session = session_id_of(key)
        if not session:
            return True
        try:
            stored = await self._store.read(key)
        except UnreadableGrant:
            stored = None
        except GrantStoreError as error:
            log.warning("Whether a client's session has ended is not known yet: %s", error)
            return False
        if stored is None:
            self._end(session)
        return True
