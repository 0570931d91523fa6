"""Makes this replica drop the access tokens of grants that ended, here or at another replica."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fairlead_gateway.core.granted_tokens import GrantedTokens
from fairlead_gateway.grants.granted_server import granted_server
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore


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
            if server is not None:
                await self._tokens.review(server, key.person)
