"""Composition root: creates all components of a gateway and connects them.

`__main__` runs the `Gateway` that `compose` returns; `fairlead up` runs it together with the operator.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from fairlead_api.documents.codec import Document
from fairlead_api.documents.rules import Rules
from fairlead_app.activation import Activation
from fairlead_app.authentication import Trust
from fairlead_app.authorization import AuthorizationService, authorization_service
from fairlead_app.call_path import ServerAccess, call_path, server_registry
from fairlead_app.configuration import check_paths
from fairlead_app.configured_models import NO_MODELS, ConfiguredModels
from fairlead_app.gateway import Gateway
from fairlead_app.gateway_metrics import gateway_metrics
from fairlead_app.grant_upkeep import grant_upkeep
from fairlead_app.lifecycle import GatewayLifecycle
from fairlead_app.listening import client_listener, operations_listener
from fairlead_app.model_endpoints import model_endpoints
from fairlead_app.parts import GatewayParts
from fairlead_app.served_console import ConsoleEntry
from fairlead_app.settings import Settings
from fairlead_app.shared_parts import SharedParts, shared_parts
from fairlead_app.sign_in import granted_listings, make_sign_ins
from fairlead_app.tool_services import AdminSources, rest_context, tool_services
from fairlead_gateway.catalog.cache import SnapshotCache
from fairlead_gateway.catalog.pins import PinReader
from fairlead_gateway.catalog.source import InitialCatalog, SnapshotStore, Source
from fairlead_gateway.core.identity import Identity, SubjectToken
from fairlead_gateway.heap import Heap
from fairlead_gateway.reports.outbox import Outbox
from fairlead_gateway.upstream.registry import Registry
from fairlead_offers.router.router_tools import RouterTools
from fairlead_tools.handlers.tools import DOCUMENT
from fairlead_web.guard import RequestGuard

if TYPE_CHECKING:
    from fairlead_authorization.clients.fetching import Fetch
    from fairlead_kube.client import Kube

DENY_ALL: Final = Rules(default_action="Deny")
"""Rules that deny all tools."""
NO_TRUST: Final = Trust()


class CatalogFeed(msgspec.Struct, frozen=True, kw_only=True):
    """Sources of the catalog."""

    source: Source
    pins: PinReader | None = None
    """Reader of held-back definitions."""
    closed: bool = False
    """Whether all tools are denied until the operator's rules are loaded."""


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """Garbage collector, clock and cluster of the gateway's process."""

    heap: Heap = msgspec.field(default_factory=lambda: Heap(owner=False))
    clock: Callable[[], float] = time.monotonic
    """Monotonic clock for deadlines and limits of calls, in seconds."""
    kube: Kube | None = None
    """Client of the cluster; None off a cluster."""
    client_documents: Fetch | None = None
    """Fetches the metadata documents of OAuth clients; None: fetch them from public addresses only."""


def compose(
    settings: Settings,
    catalog: CatalogFeed,
    servers: ServerAccess,
    *,
    models: ConfiguredModels | None = None,
    trust: Trust = NO_TRUST,
    runtime: Runtime | None = None,
) -> Gateway:
    """Create a gateway. It does nothing until its `start` is called.

    `models` are the configured routes, windows and providers of models; `trust` authenticates clients. Raises
    BadSetting for invalid settings, such as unreadable certificates.
    """
    installation = settings.installation
    check_paths(installation, settings.search, settings.records.audit, settings.identity.made_keys)
    models = models or ConfiguredModels(NO_MODELS)
    runtime = runtime or Runtime()
    shared = shared_parts(settings, trust, runtime.heap, runtime.clock, runtime.kube)
    custom = servers.custom
    local_catalog = {DOCUMENT: custom.catalog(installation.local_namespace)} if len(custom) else {}
    outbox = Outbox(
        installation.environment,
        shared.clock,
        own=local_catalog.values(),
        tallying=settings.records.aggregates,
        on_refresh=lambda server: listings.refresh(server),  # noqa: PLW0108 - the listings are made below
    )
    listings = granted_listings(shared, lambda: registry, outbox, lambda: path.endpoint.selection.snapshot)
    sign_ins = make_sign_ins(shared, lambda: registry, listings, lambda: listener.port)
    router_tools = RouterTools(lambda: tools)

    async def session_subject(identity: Identity, token_type: str) -> SubjectToken:
        assert authorization is not None, "only it begins sessions"
        return await authorization.subject_tokens.get(identity, token_type)

    registry = server_registry(
        shared,
        servers,
        outbox,
        sign_ins,
        router_tools,
        lambda session, params: path.endpoint.streams.complete_elicitation(session, params),  # noqa: PLW0108 - see `path`
        session_subject,
    )
    path = call_path(shared, registry, router_tools, sign_ins)
    activation = Activation(shared, path.endpoint, registry, outbox)
    sources = _admin_sources(servers, catalog, activation, registry)
    tools = tool_services(shared, path, models)
    rest = rest_context(shared, path, tools, outbox, sources, sign_ins)
    snapshots = _snapshot_store(shared, catalog, local_catalog, activation)
    authorization = _authorization(shared, servers, rest.guard, runtime)
    parts = GatewayParts(
        shared=shared,
        snapshots=snapshots,
        registry=registry,
        outbox=outbox,
        custom=custom,
        path=path,
        tools=tools,
        rest=rest,
        sign_ins=sign_ins,
        listings=listings,
        upkeep=grant_upkeep(shared, registry, rest.administration.accounts, lambda: path.endpoint.selection.snapshot),
        models=model_endpoints(shared, models, tools, rest.guard, path.recorder),
        authorization=authorization,
    )
    lifecycle = GatewayLifecycle(snapshots)
    listener = client_listener(
        parts, lifecycle, ConsoleEntry(installation.session_key.encode(), trust.console_token, trust.sign_in)
    )
    metrics = gateway_metrics(parts, lifecycle, listener)
    operations = operations_listener(parts, lifecycle, metrics)
    return Gateway(parts, lifecycle, listener, operations, metrics)


def _admin_sources(
    servers: ServerAccess, catalog: CatalogFeed, activation: Activation, registry: Registry
) -> AdminSources:
    return AdminSources(
        moves=activation.moves,
        tokens=registry,
        revoker=registry,
        children=servers.children,
        outputs=servers.outputs,
        pins=catalog.pins,
    )


def _snapshot_store(
    shared: SharedParts, catalog: CatalogFeed, own_documents: Mapping[str, Document], activation: Activation
) -> SnapshotStore:
    """Create the store of snapshots, which begins with the `own_documents` documents of the gateway."""
    installation = shared.settings.installation
    return SnapshotStore(
        catalog.source,
        activation.swap,
        initial=InitialCatalog(
            own=own_documents,
            rules=DENY_ALL if catalog.closed else Rules(),
            cache=SnapshotCache(installation.cache_dir) if installation.cache_dir is not None else None,
        ),
        environment=installation.environment,
        on_replaced=activation.free_replaced,
        heap=shared.heap,
    )


def _authorization(
    shared: SharedParts, servers: ServerAccess, guard: RequestGuard, runtime: Runtime
) -> AuthorizationService | None:
    trust, own_tokens, store = shared.trust.authorization, shared.own_tokens, shared.grants
    if trust is None or own_tokens is None or store is None:
        return None
    return authorization_service(
        trust,
        own_tokens,
        store,
        guard,
        session_key=shared.settings.installation.session_key.encode(),
        resolve=servers.resolve,
        clock=shared.clock,
        documents=runtime.client_documents,
    )
