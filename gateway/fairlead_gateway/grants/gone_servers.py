"""Ends the grants for servers that were removed while the gateway ran."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from typing import Final

from fairlead_api.meta import ServerKey
from fairlead_gateway.grants.periodic_check import PeriodicCheck
from fairlead_mcp.oauth.stored_grant import GrantStore, GrantStoreError

log = logging.getLogger(__name__)

GONE_SECONDS: Final = 3_600.0
"""Seconds for which a server has to be missing, so that a server that is replaced or restored keeps its grants."""
CHECK_SECONDS: Final = 60.0
"""Seconds between two checks."""


class GoneServers:
    """Checks which servers are missing, from `start` to `aclose`.

    `sign_in_servers` returns the servers that users sign in to, and `all_servers` all servers. `clock` returns
    monotonic seconds. Grants for a server that this process has never seen are kept, because another gateway with the
    same store may have that server.
    """

    def __init__(
        self,
        store: GrantStore,
        sign_in_servers: Callable[[], Collection[ServerKey]],
        all_servers: Callable[[], Collection[ServerKey]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._sign_in_servers = sign_in_servers
        self._all_servers = all_servers
        self._clock = clock
        self._seen_servers: set[ServerKey] = set()
        """Servers that users could sign in to, including those that are missing now."""
        self._missing_since: dict[ServerKey, float] = {}
        """Missing servers, each with the time at which this was noticed."""
        self._periodic = PeriodicCheck(self.check, "grants of removed servers", CHECK_SECONDS, 0.0)

    def start(self) -> None:
        self._periodic.start()

    async def aclose(self) -> None:
        await self._periodic.aclose()

    async def check(self) -> None:
        """End the grants for servers that have been missing for GONE_SECONDS. Grants that cannot be ended now are tried
        again.
        """
        now, all_servers = self._clock(), set(self._all_servers())
        self._seen_servers.update(self._sign_in_servers())
        self._missing_since = {key: self._missing_since.get(key, now) for key in self._seen_servers - all_servers}
        for key in [key for key, since in self._missing_since.items() if now - since >= GONE_SECONDS]:
            try:
                await self._end(key)
            except GrantStoreError as error:
                log.warning("The grants of users for the removed server %s could not be deleted: %s", key, error)
            else:
                self._seen_servers.discard(key)

    async def _end(self, server: ServerKey) -> None:
        ended_count = 0
        for key, _ in await self._store.all_grants({str(server)}):
            ended_count += await self._store.delete(key)
        if ended_count:
            log.info("The server %s was removed: %d grants of users were deleted", server, ended_count)
