"""Lists the Fairlead installations behind the servers of an endpoint, to detect loops. Pure module."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.policy.view import server_target


def gateways_behind(snapshot: Snapshot, base: bytes) -> Iterator[str]:
    """Names of the Fairlead installations behind the online servers of the endpoint with the target `base`."""
    for key, server in snapshot.servers.items():
        catalog = server.catalog
        merged = catalog.prefix is not None and not base.startswith(b"/servers/")
        if catalog.gateways and catalog.online and (merged or base == server_target(key)):
            yield from catalog.gateways
