"""Creates the services of tools, and the context of the REST API and the console."""

from __future__ import annotations

import msgspec

from fairlead_app.authorization import client_sign_ins
from fairlead_app.call_path import McpPath
from fairlead_app.configuration import ModelApiReach, compressor_config, embedding_config, vector_folder
from fairlead_app.configured_models import ConfiguredModels
from fairlead_app.shared_parts import LOCAL_ENVIRONMENT, SharedParts
from fairlead_gateway.catalog.pins import NoPins, PinReader
from fairlead_gateway.conversation.choosers import Choosers
from fairlead_gateway.core.granted_tokens import GrantedTokens, GrantRevoker
from fairlead_gateway.grants.accounts import Accounts
from fairlead_gateway.policy.tier_moves import TierMoves
from fairlead_gateway.reports.outbox import Outbox
from fairlead_gateway.sign_in.sign_ins import SignIns
from fairlead_mcp.host import ChildHost
from fairlead_offers.catalogs.catalog_changes import CatalogChanges
from fairlead_offers.catalogs.subject_catalog import SubjectCatalogs
from fairlead_offers.models.model_facts import ModelFacts
from fairlead_offers.results.compressor_port import compressor
from fairlead_offers.results.session_context import SessionContext
from fairlead_offers.search.tool_search import ToolSearch
from fairlead_offers.search.tool_vectors import INDEXING_SHARE, embedder
from fairlead_offers.services import ToolServices
from fairlead_offers.workers.heavy_work import HeavyWork, WorkerThread
from fairlead_offers.workers.throttle import Throttle
from fairlead_rest.call_counts import CallCounts
from fairlead_rest.context import Administration, Records, RestContext, Tallies
from fairlead_rest.process_outputs import ProcessOutputs
from fairlead_search.embedding import EmbeddingConfig, missing_modules
from fairlead_web.guard import RequestGuard


class AdminSources(msgspec.Struct, frozen=True, kw_only=True):
    """Sources of information for administrators besides the catalog: child processes and their output, moves of tools
    between tiers, held-back definitions, access tokens and the end of grants.
    """

    moves: TierMoves
    tokens: GrantedTokens
    revoker: GrantRevoker
    children: ChildHost | None = None
    outputs: ProcessOutputs | None = None
    pins: PinReader | None = None


def tool_services(shared: SharedParts, path: McpPath, models: ConfiguredModels) -> ToolServices:
    """Create the services of tools. Raises BadSetting."""
    settings, metrics = shared.settings, shared.metrics
    throttle = Throttle(lambda: metrics.in_flight, settings.rest.share, metrics.shares)
    work = HeavyWork(throttle, metrics.shares, settings.rest.processes)
    reach = ModelApiReach(settings.upstream.egress, settings.installation.release_namespace)
    encoder = embedding_config(settings.search, reach)
    return ToolServices(
        catalogs=SubjectCatalogs(shared.served.get, path.endpoint.view_builds, shared.startup_wait),
        work=work,
        models=ModelFacts(
            routes=models.routes,
            windows=models.windows,
            prices=models.prices,
            live=models.live,
        ),
        search=_search(shared, encoder, work.worker),
        counts=metrics.search,
        results=SessionContext(
            path.recorder,
            work.worker,
            process=settings.rest.processes > 0,
            encodes=encoder is not None and not missing_modules(),
            compressor=compressor(compressor_config(settings.results.compressor, reach), metrics.search, work.worker),
        ),
        caller=path.caller,
        choosers=Choosers(settings.installation.session_key.encode()),
        changes=CatalogChanges(shared.events, lambda: shared.served.get().snapshot, work.worker, metrics.search),
    )


def _search(shared: SharedParts, encoder: EmbeddingConfig | None, worker: WorkerThread) -> ToolSearch:
    settings, metrics = shared.settings, shared.metrics
    process = settings.rest.processes > 0
    indexing = Throttle(lambda: metrics.in_flight, INDEXING_SHARE)
    return ToolSearch(
        worker,
        process=process,
        embedder=None if encoder is None else embedder(encoder, worker, indexing, process=process),
        folder=vector_folder(settings.search, settings.rest),
        shares=metrics.shares,
    )


def rest_context(
    shared: SharedParts, path: McpPath, tools: ToolServices, outbox: Outbox, sources: AdminSources, sign_ins: SignIns
) -> RestContext:
    """Create the context of the REST API. Raises BadSetting."""
    settings, trust = shared.settings, shared.trust
    guard = RequestGuard(
        shared.allow,
        shared.identities,
        shared.resource,
        tools.catalogs.prepare,
        shared.proxies.client,
        shared.buffers,
        shared.governance.auditor,
    )
    administration = Administration(
        requests=outbox,
        groups=frozenset(trust.names.groups("FAIRLEAD_ADMIN_GROUPS", settings.identity.admin_groups)),
        issuers=trust.names,
        keys=trust.made_keys,
        accounts=None
        if shared.grants is None
        else Accounts(shared.grants, sources.tokens, sources.revoker, settings.upstream.grants.unused_days),
        client_sign_ins=client_sign_ins(shared.own_tokens, shared.grants),
        pins=sources.pins or NoPins(),
        moves=sources.moves,
        approvals=settings.identity.gateway_approvals,
        exchange_allowed=settings.upstream.token_exchange_allowed,
        local=settings.installation.environment == LOCAL_ENVIRONMENT,
    )
    records = Records(
        events=shared.events,
        calls=CallCounts(shared.metrics),
        shares=shared.metrics.shares,
        tallies=Tallies(settings.installation.environment, outbox.samples.tally)
        if settings.records.aggregates
        else None,
        recent=shared.governance.recent,
        outputs=sources.outputs or ProcessOutputs(sources.children),
        children=sources.children,
    )
    return RestContext(tools, guard, administration, records, sign_ins, settings.listening.limits.body, shared.clock)
