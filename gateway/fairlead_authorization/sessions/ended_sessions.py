"""Rejects the access tokens of ended sessions: of sessions that end at this replica, at another replica (within a
second of the end), or ended before the start.
"""

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
REREAD_SECONDS: Final = 5.0
"""Time until the store is read again, because it may report changes only from some time after its first answer."""
LOOKS: Final = 2
"""Number of successful reads of the store after the start."""


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
        # only deletions are reviewed: a sign-in writes six times, and reading each written record again at all replicas
        # was a sixth of the cost of a sign-in
        self._changes = ReviewedChanges(store, self._review, "ended sessions", pause, deletions=True)
        self._reading_again: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Watch the store from now on, and reject the tokens of sessions that have ended before."""
        self._changes.start()
        remaining = LOOKS
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._reject_ended()
            remaining -= 1
        except (GrantStoreError, TimeoutError) as error:
            log.warning("Tokens of sessions that ended before the start are accepted for now: %s", error)
        self._reading_again = asyncio.get_running_loop().create_task(
            self._read_again(remaining), name="sessions ended before"
        )

    async def aclose(self) -> None:
        if self._reading_again is not None:
            self._reading_again.cancel()
            await asyncio.gather(self._reading_again, return_exceptions=True)
        await self._changes.aclose()

    async def _reject_ended(self) -> None:
        """Reject the tokens of all sessions whose end is recorded in the store. Raises GrantStoreError."""
        for key, _ in await self._store.of_person(b""):
            if key.server.startswith(session_ends.PREFIX):
                self._end(key.server.removeprefix(session_ends.PREFIX))

    async def _read_again(self, remaining: int) -> None:
        """Read the store until `remaining` reads were successful."""
        while remaining:
            await self._pause(REREAD_SECONDS)
            with contextlib.suppress(GrantStoreError):
                await self._reject_ended()
                remaining -= 1

    async def _review(self, key: GrantKey) -> bool:
        """Reject the tokens of a changed session if it has ended. Returns False if the store could not be read."""
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
