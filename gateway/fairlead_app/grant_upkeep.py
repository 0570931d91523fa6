"""Keeps stored grants in step with what they are for, in the background, while a gateway runs."""

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

    ended: EndedGrants | None
    """Drops access tokens whose grants have ended."""
    gone: GoneServers | None
    """Ends grants of servers that were removed."""
    unused: UnusedGrants | None
    """Ends grants that no call has used for a long time."""

    def start(self) -> None:
        if self.ended is not None:
            self.ended.start()
        if self.gone is not None:
            self.gone.start()
        if self.unused is not None:
            self.unused.start()

    async def aclose(self) -> None:
        if self.unused is not None:
            await self.unused.aclose()
        if self.gone is not None:
            await self.gone.aclose()
        if self.ended is not None:
            await self.ended.aclose()


def grant_upkeep(
    shared: SharedParts, registry: Registry, accounts: Accounts | None, snapshot: Callable[[], Snapshot]
) -> GrantUpkeep:
    """Create the work that the store of grants needs. `snapshot` returns the served one."""
    grants, gone = shared.grants, None
    if grants is not None and shared.settings.upstream.grants.store != "none":
        # only of a shared store: a folder has grants for servers of other projects too
        gone = GoneServers(grants, registry.consents, lambda: snapshot().servers, shared.clock)
    return GrantUpkeep(
        ended=None if grants is None else EndedGrants(grants, registry),
        gone=gone,
        unused=None if accounts is None else UnusedGrants(accounts),
    )
