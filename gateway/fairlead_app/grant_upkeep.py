"""Removes stored grants that are no longer needed, in the background, while a gateway runs."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fairlead_app.shared_parts import SharedParts
from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.grants.accounts import Accounts
from fairlead_gateway.grants.ended_grants import EndedGrants
from fairlead_gateway.grants.gone_servers import GoneServers
from fairlead_gateway.grants.unused_grants import UnusedGrants
from fairlead_gateway.upstream.registry import Registry


class GrantUpkeep(msgspec.Struct, frozen=True, kw_only=True):
    """Background work on the grants that people made for servers. Each part is None where it is not needed."""

    ended_grants: EndedGrants | None
    """Drops access tokens whose grants have ended."""
    gone_servers: GoneServers | None
    """Ends grants of servers that were removed."""
    unused_grants: UnusedGrants | None
    """Ends grants that no call has used for a long time."""

    def start(self) -> None:
        if self.ended_grants is not None:
            self.ended_grants.start()
        if self.gone_servers is not None:
            self.gone_servers.start()
        if self.unused_grants is not None:
            self.unused_grants.start()

    async def aclose(self) -> None:
        if self.unused_grants is not None:
            await self.unused_grants.aclose()
        if self.gone_servers is not None:
            await self.gone_servers.aclose()
        if self.ended_grants is not None:
            await self.ended_grants.aclose()


def grant_upkeep(
    shared: SharedParts, registry: Registry, accounts: Accounts | None, snapshot: Callable[[], Snapshot]
) -> GrantUpkeep:
    """Create the work that the store of grants needs. `snapshot` returns the served snapshot."""
    grants, gone_servers = shared.grants, None
    if grants is not None and shared.settings.upstream.grants.store != "none":
        # only in a shared store, as a folder also has grants for servers of other projects
        gone_servers = GoneServers(grants, registry.consents, lambda: snapshot().servers, shared.clock)
    return GrantUpkeep(
        ended_grants=None if grants is None else EndedGrants(grants, registry),
        gone_servers=gone_servers,
        unused_grants=None if accounts is None else UnusedGrants(accounts),
    )
