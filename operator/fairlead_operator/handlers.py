"""Kopf's handlers: they pass each event of our kinds to the informer of its kind, and nothing else.

Only `kopf.on.event`: it writes nothing to objects, no finalizers either: no deletion ever waits for an operator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import kopf

from fairlead_api.meta import GROUP, VERSION
from fairlead_kube.client import bound_item
from fairlead_kube.resources import LATENCY_TIERS, MCP_SERVERS, TOOL_POLICIES, Json, Kind

Observe = Callable[[Kind, str | None, Json], object]


class KopfFeed(NamedTuple):
    """Memo of the handlers: `observe` hands an event to `into`, in the operator's own event loop."""

    loop: asyncio.AbstractEventLoop
    into: Observe
    login: Callable[[], Awaitable[kopf.ConnectionInfo]]

    def observe(self, kind: Kind, event: Any) -> None:
        self.loop.call_soon_threadsafe(self.into, kind, event["type"], bound_item(dict(event["object"])))


def handlers(*, tiers: bool = True) -> kopf.OperatorRegistry:
    """Handlers of our kinds; without `tiers` of those that live in a namespace."""
    registry = kopf.OperatorRegistry()

    @kopf.on.startup(registry=registry)
    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.posting.enabled = False
        settings.scanning.disabled = True  # watching the CRDs takes a wider right
        settings.networking.error_backoffs = (0.2, 0.5, 1, 1, 2, 2, 2, 2)
        settings.process.ultimate_exiting_timeout = None
        settings.queueing.idle_timeout = 0.5  # seconds for which a worker that has nothing to do keeps its object

    @kopf.on.login(registry=registry)
    async def login(memo: KopfFeed, **_: Any) -> kopf.ConnectionInfo:
        return await memo.login()

    @kopf.on.event(GROUP, VERSION, "mcpservers", registry=registry)
    async def mcp_server(event: Any, memo: KopfFeed, **_: Any) -> None:
        memo.observe(MCP_SERVERS, event)

    @kopf.on.event(GROUP, VERSION, "toolpolicies", registry=registry)
    async def tool_policy(event: Any, memo: KopfFeed, **_: Any) -> None:
        memo.observe(TOOL_POLICIES, event)

    if tiers:

        @kopf.on.event(GROUP, VERSION, "latencytiers", registry=registry)
        async def latency_tier(event: Any, memo: KopfFeed, **_: Any) -> None:
            memo.observe(LATENCY_TIERS, event)

    return registry
