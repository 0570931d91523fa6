"""Revokes the providers' refresh tokens of ended sessions (RFC 7009), in the background.

When a refresh token is revoked, some providers end all of the person's grants for the gateway. So a token is not
revoked while the person has another session with the same provider. A failed revocation is not repeated: the token
expires, and the gateway has deleted it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, GrantStoreError, StoredGrant

log = logging.getLogger(__name__)

MAX_WAITING: Final = 1_024
"""Maximum number of waiting revocations. At the limit, further tokens are not revoked."""
CLOSE_SECONDS: Final = 5.0
"""Time limit for the waiting revocations when the gateway stops."""

RevokeGrant = Callable[[StoredGrant], Awaitable[bool]]
"""Revokes the refresh token of a session. Returns False if the provider did not revoke it. Has a timeout."""


class ProviderRevocations:
    """Revokes one token after the other, as soon as `start` was called. `store` has the sessions."""

    def __init__(self, store: GrantStore) -> None:
        self._store = store
        self._revoke: RevokeGrant | None = None
        self._waiting: deque[tuple[GrantKey, StoredGrant]] = deque()
        self._work: asyncio.Task[None] | None = None

    def start(self, revoke: RevokeGrant) -> None:
        """Revoke tokens with the function `revoke` from now on."""
        self._revoke = revoke
        self._begin()

    def add(self, key: GrantKey, grant: StoredGrant) -> None:
        """Revoke the refresh token of a session that has ended."""
        if len(self._waiting) >= MAX_WAITING:
            _warn(grant, f"{MAX_WAITING} others wait")
            return
        self._waiting.append((key, grant))
        self._begin()

    async def aclose(self) -> None:
        """Make the waiting revocations, within a time limit. Nothing waits for those that are added later."""
        if self._work is not None:
            _, late = await asyncio.wait([self._work], timeout=CLOSE_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    # Internals

    def _begin(self) -> None:
        """Start a task that makes the waiting revocations, unless it is running."""
        if self._revoke is not None and (self._work is None or self._work.done()):
            work = self._revoke_all(self._revoke)
            self._work = asyncio.get_running_loop().create_task(work, name="revoke refresh tokens")

    async def _revoke_all(self, revoke: RevokeGrant) -> None:
        while self._waiting:
            key, grant = self._waiting.popleft()
            try:
                if await self._is_used(key.person, grant.issuer):
                    continue
                if not await revoke(grant):
                    _warn(grant, "it cannot be reached, or refuses")
            except GrantStoreError as error:
                _warn(grant, str(error))
            except Exception:
                log.exception("A refresh token of %s was not revoked", grant.issuer)

    async def _is_used(self, person: bytes, issuer: str) -> bool:
        """Whether a person has a session with a refresh token of an issuer. Raises GrantStoreError."""
        return any(
            grant.session is not None and grant.issuer == issuer and grant.refresh_token
            for _, grant in await self._store.of_person(person)
        )


def _warn(grant: StoredGrant, why: str) -> None:
    log.warning("The refresh token of a client's session that has ended was not revoked at %s: %s", grant.issuer, why)
