"""Activation of snapshots: binds each tool to its upstream, builds the snapshot's `Selection` (its views for every
subject), and serves it in place of the previous snapshot.

The SnapshotStore calls `swap` for each snapshot, and `free_replaced` when no request uses a replaced snapshot any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Generator
from typing import Final

from fairlead_api.documents.rules import Policy, Tier
from fairlead_api.meta import ServerKey
from fairlead_api.slices import table_in_slices
from fairlead_app.shared_parts import SERVER_INFO, SharedParts
from fairlead_gateway.calls.path.dispatch import CALL
from fairlead_gateway.calls.routes.routing import tool_route
from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.core.ports import Upstream
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.server import Server, Tool
from fairlead_gateway.core.server_binding import ServerBinding
from fairlead_gateway.endpoint.mcp_endpoint import McpEndpoint
from fairlead_gateway.policy.selection import Selection, select_in_slices
from fairlead_gateway.policy.server_info import server_info
from fairlead_gateway.policy.tier_moves import TierMoves
from fairlead_gateway.policy.tiers import fastest_limit
from fairlead_gateway.reports.outbox import Outbox
from fairlead_gateway.upstream.hedge import HedgedUpstream
from fairlead_gateway.upstream.registry import Registry
from fairlead_gateway.yielding import free_in_turns, in_turns
from fairlead_tools.validation.schema_cache import ToolCheck

log = logging.getLogger("fairlead_gateway")

MAX_NAMED: Final = 10
"""Maximum number of policies named in one log line."""
DEFAULT_RETRIES: Final = 1
"""Number of retries of a call, for servers that do not set `limits.retries`."""
MAX_TIMEOUT: Final = 600.0
"""Limit in seconds on calls that keep reporting progress, for servers that do not set `limits.maxTimeout`."""
PREPARE_SECONDS: Final = 1.0
"""Maximum time in seconds for preparing views before an activation. All other views are built by their first request.
"""


class Activation:
    """Activates snapshots, after which `endpoint.selection` serves the snapshot, and metrics have its tiers' limits."""

    def __init__(self, shared: SharedParts, endpoint: McpEndpoint, registry: Registry, outbox: Outbox) -> None:
        self._shared = shared
        self._settings = shared.settings.calls
        self._endpoint = endpoint
        self._registry = registry
        self._outbox = outbox
        self.moves = TierMoves()
        """Moves of tools between tiers, recorded from successive snapshots."""
        self._replaced_selections: list[object] = []
        """Large objects of replaced selections. They are freed in slices, because freeing all at once would block
        calls.
        """

    async def swap(self, snapshot: Snapshot) -> bool:
        """Activate a snapshot. Returns False if a retry is needed, because upstreams of some servers could not be
        created yet.
        """
        endpoint = self._endpoint
        await self._registry.sync(snapshot.servers)
        previous = endpoint.selection
        selection = await in_turns(self._select_in_slices(snapshot, previous))
        for check in self._shared.checks.take_large():
            await asyncio.to_thread(self._shared.checks.compile, check)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PREPARE_SECONDS):
                await in_turns(selection.prepare_in_slices(previous))
        endpoint.activate(selection)
        self._replaced_selections.extend(await in_turns(previous.parts_in_slices()))
        self._set_tier_limits(snapshot.rules.tiers)
        if snapshot.rules.policies != previous.snapshot.rules.policies:
            self._warn_about_policies(snapshot.rules.policies)
        await endpoint.streams.notify_changed_lists(previous, endpoint.selection)
        await self._shared.events.on_swap(previous.snapshot, snapshot)
        await in_turns(self.moves.on_swap(previous.snapshot, snapshot))
        return not self._registry.incomplete

    async def free_replaced(self) -> None:
        """Free the memory of replaced selections."""
        await free_in_turns(self._replaced_selections)

    def _select_in_slices(self, snapshot: Snapshot, previous: Selection) -> Generator[None, None, Selection]:
        bindings = yield from table_in_slices(
            (key, self._bind_server(server)) for key, server in snapshot.servers.items()
        )
        now, with_latency = self._shared.clock(), self._settings.meta_latency
        return (
            yield from select_in_slices(snapshot, bindings, self._bind, previous, now=now, with_latency=with_latency)
        )

    def _warn_about_policies(self, policies: Collection[Policy]) -> None:
        ambiguous = self._shared.trust.names.ambiguous_policies(policies)
        if ambiguous:
            log.warning(
                "%d policies have a subject of kind Agent, Group or Claim without `issuer`, although several issuers "
                "are configured: their Allow rules match nobody of that name, and their Deny rules match everybody of "
                "that name. Add `issuer` to the subjects of %s",
                len(ambiguous),
                ", ".join(ambiguous[:MAX_NAMED]) + (", ..." if len(ambiguous) > MAX_NAMED else ""),
            )

    def _bind_server(self, server: Server) -> ServerBinding:
        limits, settings = server.catalog.limits, self._settings
        return ServerBinding(
            server,
            self._registry.upstream(server.key),
            self._registry.guard(server.key),
            timeout=shortest_timeout(settings.timeout, limits.timeout_ms),
            max_timeout=MAX_TIMEOUT if limits.max_timeout_ms is None else limits.max_timeout_ms / 1000,
            max_bytes=min(limits.max_result_bytes or settings.max_result_bytes, settings.max_result_bytes),
            server_info=server_info(server) or SERVER_INFO,
            retries=DEFAULT_RETRIES if limits.retries is None else limits.retries,
            credentials=self._registry.credentials(server.key),
            secret_arguments=self._registry.secret_arguments(server.key),
        )

    def _bind(self, binding: ServerBinding, tool: Tool) -> Route:
        key = binding.server.key
        validates = self._settings.validate
        return tool_route(
            binding,
            tool,
            self._shared.metrics.recorder(CALL, tool.name, str(key)),
            self._outbox.samples.meter(key, tool.name, tool.hash),
            check=self._check(key, tool) if validates else None,
            upstream=hedged_upstream(self._registry, binding.server, tool),
        )

    def _check(self, server: ServerKey, tool: Tool) -> ToolCheck:
        """Check of a tool's definition for clients. Servers' definitions may be equal while the definitions for clients
        differ.
        """
        known_hash = tool.hash if tool.shape is None else ""
        return self._shared.checks.of(str(server), tool.name, tool.definition, known_hash)

    def _set_tier_limits(self, tiers: Collection[Tier]) -> None:
        self._outbox.samples.set_late_ms(fastest_limit(tiers))
        self._shared.metrics.set_tiers({tier.name: tier.max_latency_ms for tier in tiers})


def hedged_upstream(registry: Registry, server: Server, tool: Tool) -> Upstream | None:
    """Upstream with hedged calls for an idempotent tool of a server with `limits.hedgeAfter`; None for other tools."""
    after_ms = server.catalog.limits.hedge_after_ms
    if after_ms is None or not tool.idempotent:
        return None
    return HedgedUpstream(registry.upstream(server.key), registry.guard(server.key), after_ms / 1000, tool.name)


def shortest_timeout(default: float, *milliseconds: int | None) -> float:
    """The shortest of several timeouts, in seconds. `default` is in seconds; None stands for no timeout."""
    return min([default, *(value / 1000 for value in milliseconds if value is not None)])
