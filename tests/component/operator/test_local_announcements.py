"""A child process that changes while it runs: without a cluster, the operator learns this through the shared
process."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterable
from pathlib import Path

from msgspec import Raw

from fairlead_api.documents.catalog import ChildEndpoint
from fairlead_api.meta import ServerKey
from fairlead_mcp.eras import Era, modern_params
from fairlead_mcp.host import ChildHost
from fairlead_operator.clocks import Clocks
from fairlead_operator.discovery.discoverer import Discoverer
from fairlead_operator.discovery.state import DiscoveryOptions, DiscoveryState, DiscoveryTarget
from fairlead_operator.local.platform import ChildObserver, LocalConnector
from waiting import until_async

KEY = ServerKey("default", "growing")
SCRIPT = str(Path(__file__).parents[2] / "support" / "stdio_servers" / "growing_stdio.py")


def names(tools: Iterable[Raw]) -> set[str]:
    return {json.loads(bytes(tool))["name"] for tool in tools}


async def test_a_modern_child_is_subscribed_to_and_asked_again_when_it_announces_a_change() -> None:
    host = ChildHost()
    subject = DiscoveryTarget("uid", ChildEndpoint(command=sys.executable, args=(SCRIPT,)), "", "")
    discoverer = Discoverer(
        LocalConnector(host),
        lambda key: None,
        options=DiscoveryOptions(floor=0.05),
        clocks=Clocks(rng=random.Random(1)),
    )
    stop = host.listen(ChildObserver(lambda key: None, discoverer.request_discovery))

    def look() -> DiscoveryState:
        return discoverer.discover_if_due(KEY, subject, None, 600.0)

    async def knows(*wanted: str) -> bool:
        listing = look().listing
        return listing is not None and names(listing.unpack().tools) == set(wanted)

    await until_async("its first tool", lambda: knows("grow"))
    child = host.find(KEY)
    assert child is not None
    assert child.negotiated is not None
    assert child.negotiated.era is Era.MODERN

    async def grows() -> bool:
        """Called until the announcement arrives, because the start of the subscription is not reported."""
        before = child.clock()
        params = modern_params(b'{"name":"grow","arguments":{"name":"later"}}', child.side.client)
        await child.request("tools/call", params, deadline=before + 10)
        return await knows("grow", "later")

    await until_async("the announced tool", grows)
    assert child.starts == 1
    stop()
    await discoverer.aclose()
    await host.aclose()
