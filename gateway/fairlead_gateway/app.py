"""The composition root: every part of a gateway made, wired, started and stopped.

`fairlead up` calls `build` and runs the result in its own loop; `__main__` does the same for a gateway alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from fairlead_api.documents.rules import Rules
from fairlead_gateway.activation import Activation
from fairlead_gateway.calls.cache import ResultCache
from fairlead_gateway.calls.context import CallContext
from fairlead_gateway.calls.context_recorder import ContextRecorder
from fairlead_gateway.calls.direct import Caller
from fairlead_gateway.calls.dispatch import Dispatcher
from fairlead_gateway.calls.input_required import Bridge
from fairlead_gateway.calls.open_tasks import OpenTasks
from fairlead_gateway.calls.own_tools import OwnToolCalls
from fairlead_gateway.calls.request_state import RequestStateSigner
from fairlead_gateway.calls.resource_subscriptions import ResourceSubscriptions
from fairlead_gateway.calls.result_keeper import ResultKeeper
from fairlead_gateway.calls.server_requests import ServerRequests
from fairlead_gateway.calls.sessions import SessionIds
from fairlead_gateway.calls.startup import StartupWait
from fairlead_gateway.calls.task_ids import TaskIds
from fairlead_gateway.calls.task_subscriptions import TaskSubscriptions
from fairlead_gateway.catalog.cache import SnapshotCache
from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.catalog.pins import PinReader
from fairlead_gateway.catalog.source import SnapshotStore, Source
from fairlead_gateway.configuration import (
    certificates,
    check_paths,
    client_limits,
    compression,
    embedding,
    vector_folder,
)
from fairlead_gateway.configured_models import NO_MODELS, ConfiguredModels
from fairlead_gateway.conversation.choosers import Choosers
from fairlead_gateway.core.credentials import Credentials
from fairlead_gateway.custom.exposition import CustomCollector
from fairlead_gateway.custom.upstream import LocalUpstream
from fairlead_gateway.endpoint.builtin_methods import BuiltinMethods
from fairlead_gateway.endpoint.event_store import EventStore
from fairlead_gateway.endpoint.fallback import FallbackServer
from fairlead_gateway.endpoint.listener import Listener, PortTaken
from fairlead_gateway.endpoint.mcp_endpoint import McpEndpoint
from fairlead_gateway.endpoint.notification_streams import NotificationStreams
from fairlead_gateway.endpoint.view_builds import ViewBuilds
from fairlead_gateway.events import EventLog
from fairlead_gateway.governance import Governance, configured_proxies, result_store
from fairlead_gateway.heap import Heap
from fairlead_gateway.identity.identities import Identities
from fairlead_gateway.identity.resource import ProtectedResource
from fairlead_gateway.identity.setup import Trust
from fairlead_gateway.limits.buffers import AnswerBuffers
from fairlead_gateway.metrics.exposition import GatewayCollector, registry_of
from fairlead_gateway.metrics.guards import GuardCollector
from fairlead_gateway.metrics.latencies import LatencyCollector
from fairlead_gateway.metrics.models import ModelCollector
from fairlead_gateway.metrics.reloads import ReloadCollector
from fairlead_gateway.metrics.servers import ServerCollector
from fairlead_gateway.metrics.speech import SpeechCollector
from fairlead_gateway.model_endpoints import llm_endpoints, speech_front
from fairlead_gateway.operations_pages import operations_pages
from fairlead_gateway.operations_server import OperationsServer
from fairlead_gateway.policy.gateways_behind import gateways_behind
from fairlead_gateway.policy.view import MERGED
from fairlead_gateway.reports.outbox import Outbox
from fairlead_gateway.served_console import ConsoleEntry, served_console
from fairlead_gateway.served_rest import served_rest
from fairlead_gateway.settings import Settings
from fairlead_gateway.telemetry import MetricsRegistry
from fairlead_gateway.upstream.registry import Registry
from fairlead_mcp.eras import Client
from fairlead_mcp.host import ChildHost
from fairlead_mcp.hosts import AllowList
from fairlead_mcp.http.dial import RememberedNames, Resolve, resolve_by_dns
from fairlead_mcp.via import pseudonym, together
from fairlead_rest.call_counts import CallCounts
from fairlead_rest.context import RestContext, Tallies
from fairlead_rest.guard import GuardMiddleware, RequestGuard
from fairlead_rest.process_outputs import ProcessOutputs
from fairlead_rest.public_pages import PublicPages, Readiness
from fairlead_rest.router_tools import RouterTools
from fairlead_rest.throttle import Throttle
from fairlead_rest.tool_vectors import INDEXING_SHARE
from fairlead_tools.handlers.tools import DOCUMENT, CustomTools
from fairlead_tools.validation.shelf import Checks
from fairlead_tools.version import NAME, VERSION

if TYPE_CHECKING:  # imported where they are configured: an HTTP client takes a third of a second
    from fairlead_llm.routes import LlmEndpoints
    from fairlead_speech.front import SpeechFront

CLOSED: Final = Rules(default_action="Deny")
NOBODY: Final = Trust()
CATALOG_SECONDS: Final = 5.0
"""How long clients are refused for want of a catalog. One comes within a moment, if only from the cache."""


class Gateway:
    """A running gateway. `start` it once, `stop` it once; `port` and `metrics_port` are known after the start."""

    def __init__(
        self,
        settings: Settings,
        snapshots: SnapshotStore,
        registry: Registry,
        endpoint: McpEndpoint,
        book: MetricsRegistry,
        rest: RestContext,
        checks: Checks,
        outbox: Outbox,
        custom: CustomTools,
        governance: Governance,
        heap: Heap,
        models: ConfiguredModels,
        used: ModelCollector,
        llm: LlmEndpoints | None,
        speech: SpeechFront | None,
        spoken: SpeechCollector,
        entry: ConsoleEntry,
    ) -> None:
        self.settings = settings
        self.snapshots = snapshots
        self.registry = registry
        self.endpoint = endpoint
        self.book = book
        self._draining = False
        self.rest = rest
        self.pages = PublicPages(self.readiness, rest.guard.resource)
        self.news = rest.news
        """Events of servers and tools, for subscribers."""
        self.models = models
        self._heap = heap
        self.governance = governance
        self.outbox = outbox
        """Report for the operator that polls this gateway."""
        self._llm = llm
        self._speech = speech
        api = served_rest(self.pages, rest, heap)
        console = served_console(settings, rest, api, entry, book.console, heap)
        models_api = () if llm is None else (llm.api,)
        served = console.in_front_of(GuardMiddleware(api, rest.guard, console.request, *models_api))
        fallbacks = FallbackServer(served, heap, speech)
        self._listener = Listener(endpoint, fallbacks, settings.address, settings.port, certificates(settings))
        self._loop: asyncio.AbstractEventLoop | None = None
        collector = GatewayCollector(
            book,
            snapshots,
            registry.gauges,
            lambda: len(self._listener.connections),
            endpoint.connection_limiter,
            self._tasks,
            lambda: rest.throttle.waiting,
            lambda: heap.full_seconds,
        )
        guards = GuardCollector(
            checks,
            lambda: registry.guards,
            endpoint.context.cache,
            endpoint.identities,
            endpoint.proxies,
            endpoint.buffers,
            lambda: len(rest.issuers.without_issuer(self.snapshot.rules.policies)),
        )
        latencies = LatencyCollector(lambda: endpoint.selection, book, lambda: outbox.asked_at, time.time)
        servers = ServerCollector(lambda: endpoint.selection, rest.children)
        reloads = ReloadCollector(lambda: models.reload_failed, lambda: models.reloads)
        custom_tools = CustomCollector(custom)
        own = (collector, guards, latencies, servers, custom_tools)
        self.metrics = registry_of(*own, governance, used, spoken, reloads)
        """Everything that is told at /metrics."""
        pages = operations_pages(self.metrics, self.readiness, outbox, settings.pull_token)
        allow = AllowList.for_operations(settings.address, settings.allowed_hosts, settings.allowed_origins)
        self._operations = OperationsServer(pages, allow, settings.address, settings.metrics_port)

    @property
    def port(self) -> int:
        return self._listener.port

    @property
    def metrics_port(self) -> int:
        return self._operations.port

    @property
    def snapshot(self) -> Snapshot:
        """Catalog that is served now."""
        return self.endpoint.selection.snapshot

    def readiness(self) -> Readiness:
        if self._draining:
            return Readiness(False, "stopping")
        if not self.snapshots.first_snapshot.is_set():
            return Readiness(False, "no catalog yet")
        return Readiness(True, "serving", stale=self.snapshots.stale)

    def _tasks(self) -> int:
        """Scrapes are answered in a thread, which has no loop of its own to ask."""
        return len(asyncio.all_tasks(self._loop)) if self._loop is not None else 0

    async def start(self) -> None:
        """Look for the catalog, then listen: an earlier client would see no tools.

        Without a catalog it listens after a while, to say that it is not ready. Raises endpoint.listener.PortTaken, and
        leaves nothing behind then.
        """
        self._loop = asyncio.get_running_loop()
        await self._listener.bind()
        try:
            await self._operations.start()
        except PortTaken:
            await self._listener.stop(0)
            raise
        self._heap.start()
        self.governance.start(self.metrics)
        await self.endpoint.identities.start()
        await self.snapshots.start()
        self.models.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CATALOG_SECONDS):
                await self.snapshots.first_snapshot.wait()
        await self._listener.serve()

    async def stop(self, grace: float | None = None) -> None:
        """Stop accepting, let calls in flight end for up to `grace` seconds, cancel the rest, close everything.

        Before that, for `settings.drain` seconds: be not ready, and turn new connections away; not a second time.
        """
        again, self._draining = self._draining, True
        if self.settings.drain and not again:
            self._listener.retire()
            await asyncio.sleep(self.settings.drain)
        self.endpoint.streams.close()
        self.rest.end_streams()
        grace = self.settings.grace if grace is None else grace
        if self._speech is not None:
            await self._speech.drain(grace)
        await self._listener.stop(grace)
        await self.rest.aclose()
        if self._llm is not None:
            await self._llm.aclose()
        if self._speech is not None:
            await self._speech.aclose()
        await self.models.stop()
        await self.snapshots.stop()
        await self.endpoint.identities.aclose()
        await self.endpoint.context.subscriptions.aclose()
        self.endpoint.context.bridge.close()
        await self.registry.aclose(0)
        await self.governance.stop()
        await self.rest.kept.recorder.aclose()
        await self._operations.stop()
        await self._heap.stop()


def build(
    settings: Settings,
    *,
    source: Source,
    credentials: Credentials,
    children: ChildHost | None = None,
    shared_children: bool = True,
    models: ConfiguredModels | None = None,
    custom: CustomTools | None = None,
    trust: Trust = NOBODY,
    resolve: Resolve = resolve_by_dns,
    clock: Callable[[], float] = time.monotonic,
    closed: bool = False,
    outputs: ProcessOutputs | None = None,
    heap: Heap | None = None,
    console_token: str = "",
    pins: PinReader | None = None,
) -> Gateway:
    """Wire a gateway; nothing runs before its `start`.

    With `children`, servers may be child processes: those that somebody else runs in it, or, with `shared_children`
    False, started by the gateway itself. `models` are the routes and windows that plans reckon with, `custom` the tools
    of the server `local`; without any there is no such server. `trust` authenticates clients; with an authenticator, a
    request without a credential is refused unless `settings.anonymous` allows it. `clock` times calls, in seconds. With
    `closed` nobody sees a tool before the operator's rules were read. `outputs` has the printed lines of servers, also
    of those that never answered. `heap` takes over the garbage collector of a process that is its own. With
    `console_token` the console is for browsers of this machine that showed it once. `pins` has what is held back.
    Raises BadSetting for certificates and other settings that cannot be used.
    """
    check_paths(settings)
    heap = heap or Heap(owner=False)
    models = models or ConfiguredModels(NO_MODELS)
    installation = settings.installation or pseudonym(settings.pull_token)
    client = Client(name=NAME, version=VERSION)
    own_info = msgspec.json.encode(client)
    book = MetricsRegistry()
    governance = Governance(settings, book, clock)
    counted = (governance.limiter, governance.auditor, governance.spans)
    tools = CustomTools() if custom is None else custom
    checks = Checks()
    news = EventLog()
    own = {DOCUMENT: tools.catalog(settings.local_namespace)} if len(tools) else {}
    outbox = Outbox(settings.environment, clock, own=own.values(), tallying=settings.aggregates)
    remembered = RememberedNames(resolve, clock)
    registry = Registry(
        credentials,
        children=children,
        shared_children=shared_children,
        client=client,
        connections=settings.upstream_connections,
        waiting=settings.upstream_waiting,
        queue_seconds=settings.upstream_queue_seconds,
        sessions=settings.upstream_sessions,
        session_seconds=settings.upstream_session_seconds,
        resolve=lambda key: settings.egress.guarded(remembered, key.namespace),
        lost=outbox.server_lost,
        sharing=governance.sharing,
        installation=installation,
        local=lambda limit: LocalUpstream(tools, limit=limit, threads=settings.tool_threads, clock=clock),
    )
    sessions = SessionIds(settings.session_key.encode())
    anonymous = settings.anonymous == "allow" or (settings.anonymous is None and not trust.authenticators)
    identities = Identities(trust.authenticators, anonymous=anonymous)
    resource = ProtectedResource(settings.public_url, trust.issuers, trust.scopes, secure=settings.tls_cert is not None)
    allow = AllowList.for_bind(settings.address, settings.allowed_hosts, settings.allowed_origins)
    buffers = AnswerBuffers(settings.answer_bytes, settings.answer_bytes_each)
    subscriptions = ResourceSubscriptions(client, clock)
    task_ids = TaskIds(settings.session_key.encode())
    open_tasks = OpenTasks(settings.open_tasks, clock)
    recorder = ContextRecorder(result_store(settings, clock), settings.session_key.encode())
    router_tools = RouterTools(lambda: rest)
    keeper = ResultKeeper(recorder, router_tools, book)
    listened = TaskSubscriptions(client, task_ids, open_tasks, book, governance.auditor, clock, keeper)
    streams = NotificationStreams(subscriptions, listened, identities, ViewBuilds(), lambda: endpoint.selection)
    server_requests = ServerRequests(sessions, streams.notify)
    context = CallContext(
        book,
        client,
        own_info,
        server_requests,
        subscriptions,
        Bridge(clock),
        clock,
        ResultCache(settings.result_cache_bytes, clock),
        *counted,
        RequestStateSigner(settings.session_key.encode()),
        registry.end_session,
        task_ids,
        open_tasks,
        keeper,
        governance.recent,
    )
    startup_wait = StartupWait(lambda: endpoint.selection, settings.start_wait)
    dispatcher, own_tools = Dispatcher(context), OwnToolCalls(context, router_tools)

    def behind(base: bytes) -> list[str]:
        return together(installation, gateways_behind(endpoint.selection.snapshot, base))

    endpoint = McpEndpoint(
        allow,
        dispatcher,
        BuiltinMethods(own_info, sessions, server_requests.set_level, behind),
        book,
        client_limits(settings),
        identities,
        resource,
        streams,
        EventStore(clock, cancels_abandoned=settings.cancel_abandoned),
        startup_wait,
        clock,
        configured_proxies(settings),
        buffers,
        installation,
        recorder=recorder,
        own_tools=own_tools,
        router_tokens=settings.router_result_tokens or None,
    )
    activation = Activation(settings, endpoint, registry, checks, book, outbox, news, own_info, clock, trust.names)
    used, spoken = ModelCollector(), SpeechCollector()
    rest = RestContext(
        lambda: endpoint.selection,
        Caller(dispatcher, own_tools, buffers),
        RequestGuard(
            allow,
            identities,
            resource,
            lambda who: streams.view_builds.ready(endpoint.selection, who, MERGED),
            endpoint.proxies.client,
            buffers,
            governance.auditor,
        ),
        news,
        outbox,
        max_body=settings.max_request_bytes,
        routes=lambda: models.current.routes,
        windows=lambda: models.current.windows,
        prices=lambda: models.current.prices,
        processes=settings.rest_processes,
        throttle=Throttle(lambda: book.in_flight, settings.rest_share),
        indexing=Throttle(lambda: book.in_flight, INDEXING_SHARE),
        choosers=Choosers(settings.session_key.encode()),
        patience=startup_wait,
        children=children,
        tallies=Tallies(settings.environment, outbox.samples.tally) if settings.aggregates else None,
        admin_groups=trust.names.groups("FAIRLEAD_ADMIN_GROUPS", settings.admin_groups),
        issuers=trust.names,
        outputs=outputs or ProcessOutputs(children),
        keys=trust.made,
        pins=pins,
        moves=activation.moves,
        approvals=settings.gateway_approvals,
        live_models=models.live,
        recorder=recorder,
        embedding=embedding(settings),
        compression=compression(settings),
        vectors=vector_folder(settings),
        counts=book.search,
        calls=CallCounts(book),
        recent=governance.recent,
    )
    snapshots = SnapshotStore(
        source,
        activation.swap,
        cache=SnapshotCache(settings.cache_dir) if settings.cache_dir is not None else None,
        own=own,
        environment=settings.environment,
        rules=CLOSED if closed else Rules(),
        replaced=activation.let_go,
        heap=heap,
    )
    speech = speech_front(settings, models, rest, governance, used, spoken.metrics)
    return Gateway(
        settings,
        snapshots,
        registry,
        endpoint,
        book,
        rest,
        checks,
        outbox,
        tools,
        governance,
        heap,
        models,
        used,
        llm_endpoints(settings, models, rest, recorder, governance, used, book.llm, speech),
        speech,
        spoken,
        ConsoleEntry(console_token, trust.sign_in),
    )
