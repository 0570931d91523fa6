"""Makes what the REST API, the console and the endpoints in front of models do their work with."""

from __future__ import annotations

import msgspec

from fairlead_app.call_path import McpPath
from fairlead_app.configuration import ModelApiReach, compression, embedding, vector_folder
from fairlead_app.configured_models import ConfiguredModels
from fairlead_app.shared_parts import SharedParts
from fairlead_gateway.catalog.pins import PinReader
from fairlead_gateway.conversation.choosers import Choosers
from fairlead_gateway.policy.tier_moves import TierMoves
from fairlead_gateway.policy.view import MERGED
from fairlead_gateway.reports.outbox import Outbox
from fairlead_mcp.host import ChildHost
from fairlead_rest.call_counts import CallCounts
from fairlead_rest.context import RestContext, Tallies
from fairlead_rest.guard import RequestGuard
from fairlead_rest.process_outputs import ProcessOutputs
from fairlead_rest.throttle import Throttle
from fairlead_rest.tool_vectors import INDEXING_SHARE


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """Things that administrators may look at, beside the catalog: processes of servers and their printed lines, moves
    of tools between tiers, and definitions that are held back.
    """

    moves: TierMoves
    children: ChildHost | None = None
    outputs: ProcessOutputs | None = None
    pins: PinReader | None = None


def rest_context(
    shared: SharedParts, path: McpPath, outbox: Outbox, models: ConfiguredModels, observed: Observed
) -> RestContext:
    """Services of REST resources. Raises BadSetting."""
    settings, metrics, trust = shared.settings, shared.metrics, shared.trust
    reach = ModelApiReach(settings.upstream.egress, settings.installation.release_namespace)
    guard = RequestGuard(
        shared.allow,
        shared.identities,
        shared.resource,
        lambda identity: path.endpoint.view_builds.ready(shared.served.get(), identity, MERGED),
        shared.proxies.client,
        shared.buffers,
        shared.governance.auditor,
    )
    return RestContext(
        shared.served.get,
        path.caller,
        guard,
        shared.events,
        outbox,
        max_body=settings.listening.limits.body,
        routes=lambda: models.current.routes,
        windows=lambda: models.current.windows,
        prices=lambda: models.current.prices,
        processes=settings.rest.processes,
        throttle=Throttle(lambda: metrics.in_flight, settings.rest.share, metrics.shares),
        indexing=Throttle(lambda: metrics.in_flight, INDEXING_SHARE),
        choosers=Choosers(settings.installation.session_key.encode()),
        patience=shared.startup_wait,
        children=observed.children,
        tallies=Tallies(settings.installation.environment, outbox.samples.tally)
        if settings.records.aggregates
        else None,
        admin_groups=trust.names.groups("FAIRLEAD_ADMIN_GROUPS", settings.identity.admin_groups),
        issuers=trust.names,
        outputs=observed.outputs or ProcessOutputs(observed.children),
        keys=trust.made,
        pins=observed.pins,
        moves=observed.moves,
        approvals=settings.identity.gateway_approvals,
        live_models=models.live,
        recorder=path.recorder,
        embedding=embedding(settings.search, reach),
        compression=compression(settings.results.compressor, reach),
        vectors=vector_folder(settings.search, settings.rest),
        counts=metrics.search,
        shares=metrics.shares,
        calls=CallCounts(metrics),
        recent=shared.governance.recent,
    )
