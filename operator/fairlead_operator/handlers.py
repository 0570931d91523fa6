"""Kopf's handlers, which pass each event of Fairlead's kinds to the informer of its kind.

The handlers only use `kopf.on.event`, which writes neither annotations nor finalizers to objects, so that no deletion
waits for an operator.
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
    """Memo that Kopf passes to each handler."""

    loop: asyncio.AbstractEventLoop
    """The operator's event loop."""
    observer: Observe
    login: Callable[[], Awaitable[kopf.ConnectionInfo]]

    def observe(self, kind: Kind, event: Any) -> None:
        self.loop.call_soon_threadsafe(self.observer, kind, event["type"], bound_item(dict(event["object"])))


def handlers(*, tiers: bool = True) -> kopf.OperatorRegistry:
    """Handlers of Fairlead's kinds; without `tiers`, only of the namespaced kinds."""
    registry = kopf.OperatorRegistry()

    @kopf.on.startup(registry=registry)
    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.posting.enabled = False
        settings.scanning.disabled = True  # watching CRDs would require more rights
        settings.networking.error_backoffs = (0.2, 0.5, 1, 1, 2, 2, 2, 2)
        settings.process.ultimate_exiting_timeout = None
        settings.queueing.idle_timeout = 0.5  # seconds for which an idle worker keeps its object in memory

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
