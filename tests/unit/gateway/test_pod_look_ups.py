"""Look-ups of the pods of a server whose name leads to addresses that are not allowed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fairlead_gateway.upstream.pod_pools import PodPools
from fairlead_mcp.egress import AddressNotAllowed
from fairlead_mcp.http.dial import Address
from fairlead_mcp.http.pool import Pool
from fairlead_mcp.http.target import Target
from virtualtime import in_virtual_time

pytestmark = in_virtual_time


@pytest.mark.parametrize("error", [AddressNotAllowed("demo leads to the API server", "a setting"), UnicodeError("x")])
async def test_pods_are_looked_up_again_later_when_none_of_the_addresses_is_allowed(error: Exception) -> None:
    async def resolve(host: str, port: int) -> list[Address]:
        raise error

    listener: Any = SimpleNamespace()
    health: Any = SimpleNamespace()
    target = Target.from_url("http://demo.team.svc/mcp")
    pods = PodPools(
        lambda resolve, limit: Pool(target.host, target.port, resolve=resolve, limit=limit),
        resolve,
        target,
        limit=4,
        listener=listener,
        health=health,
    )
    await pods._refresh()
    assert pods._refresh_at >= pods._refresh_seconds
