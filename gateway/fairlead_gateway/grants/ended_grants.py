"""Drops access tokens of this replica when their grants have ended, at this or another replica."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from fairlead_gateway.core.granted_tokens import GrantedTokens
from fairlead_gateway.grants.granted_server import granted_server
from fairlead_gateway.grants.reviewed_changes import ReviewedChanges
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, GrantStoreError

log = logging.getLogger(__name__)


class EndedGrants:
    """Watches `store`, from `start` to `aclose`. `pause` waits for a number of seconds."""

    def __init__(
        self, store: GrantStore, tokens: GrantedTokens, pause: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        self._tokens = tokens
        self._changes = ReviewedChanges(store, self._review, "ended grants", pause)

    def start(self) -> None:
        self._changes.start()

    async def aclose(self) -> None:
        await self._changes.aclose()

    async def _review(self, key: GrantKey) -> bool:
        """Drop the token of a changed grant if the grant has ended. Returns False if the store could not be read."""
        server = granted_server(key)
        if server is None:
            return True
        try:
            await self._tokens.review(server, key.person)
        except GrantStoreError as error:
            log.warning("Cannot tell yet whether a user's grant for the server %s has ended: %s", server, error)
            return False
        except Exception:
            log.exception("A changed grant for the server %s cannot be checked; its access token stays in use", server)
        return True
