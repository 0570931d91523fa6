"""Installations of Fairlead that the tools of an endpoint come through. Pure module."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.policy.view import server_target


def gateways_behind(snapshot: Snapshot, base: bytes) -> Iterator[str]:
    """Names of those behind the servers of the endpoint at `base`, as far as they are online; of all of them where it
    is not one server's.
    """
    for key, server in snapshot.servers.items():
        catalog = server.catalog
        merged = catalog.prefix is not None and not base.startswith(b"/servers/")
        if catalog.gateways and catalog.online and (merged or base == server_target(key)):
            yield from catalog.gateways
