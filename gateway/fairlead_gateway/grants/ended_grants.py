"""Makes this replica drop the access tokens of grants that ended, here or at another replica."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

from fairlead_gateway.core.granted_tokens import GrantedTokens
from fairlead_gateway.grants.granted_server import granted_server
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, GrantStoreError

log = logging.getLogger(__name__)


class EndedGrants:
    """Watches `store`, from `start` to `aclose`."""

    def __init__(self, store: GrantStore, tokens: GrantedTokens) -> None:
        self._store = store
        self._tokens = tokens
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        changes = self._store.changes()
        self._watching = asyncio.get_running_loop().create_task(self._watch(changes), name="ended grants")

    async def aclose(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    async def _watch(self, changes: AsyncIterator[GrantKey]) -> None:
        async for key in changes:
            server = granted_server(key)
            if server is not None and await self._has_ended(key):
                self._tokens.forget(server, key.person)

    async def _has_ended(self, key: GrantKey) -> bool:
        """Whether there is no such grant. A renewed grant keeps its access token. True if that cannot be read: a token
        that is dropped in vain costs one renewal, and one that stays may be of an ended grant.
        """
        try:
            return await self._store.read(key) is None
        except GrantStoreError as error:
            log.warning("A grant for %s cannot be read after a change: %s", key.server, error)
            return True
