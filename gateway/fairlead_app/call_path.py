"""Creates the components on the path of a call, from the MCP endpoint to the upstreams."""

from __future__ import annotations

import msgspec

from fairlead_api.meta import ServerKey
from fairlead_app.governance import result_store
from fairlead_app.shared_parts import CLIENT, SERVER_INFO, SharedParts
from fairlead_gateway.calls.path.context import CallContext, CallServices, Introduction
from fairlead_gateway.calls.path.direct import Caller
from fairlead_gateway.calls.path.dispatch import Dispatcher
from fairlead_gateway.calls.path.own_tools import OwnToolCalls
from fairlead_gateway.calls.questions.input_required import Bridge
from fairlead_gateway.calls.questions.server_requests import ServerRequests
from fairlead_gateway.calls.results.cache import ResultCache
from fairlead_gateway.calls.results.context_recorder import ContextRecorder
from fairlead_gateway.calls.results.result_keeper import ResultKeeper
from fairlead_gateway.calls.sealed.repeat_states import RepeatStates
from fairlead_gateway.calls.sealed.request_state import RequestStateSigner
from fairlead_gateway.calls.sealed.sessions import SessionIds
from fairlead_gateway.calls.sealed.task_ids import TaskIds
from fairlead_gateway.calls.subscriptions.resource_subscriptions import ResourceSubscriptions
from fairlead_gateway.calls.subscriptions.task_subscriptions import TaskSubscriptions
from fairlead_gateway.calls.tasks.client_tasks import ClientTasks
from fairlead_gateway.calls.tasks.open_tasks import OpenTasks
from fairlead_gateway.core.credentials import Credentials
from fairlead_gateway.core.grant_counts import GRANTED
from fairlead_gateway.core.identity import Identity, SessionSubject
from fairlead_gateway.core.ports import Upstream
from fairlead_gateway.core.sign_in import SignInLinks, SignInWait
from fairlead_gateway.endpoint.builtin_methods import BuiltinMethods
from fairlead_gateway.endpoint.event_store import EventStore
from fairlead_gateway.endpoint.http_service import PortLimits
from fairlead_gateway.endpoint.mcp_endpoint import ClientAccess, McpEndpoint, RequestHandlers
from fairlead_gateway.endpoint.notification_streams import NotificationStreams
from fairlead_gateway.policy.gateways_behind import gateways_behind
from fairlead_gateway.reports.outbox import Outbox
from fairlead_gateway.upstream.registry import Registry
from fairlead_gateway.upstream.server_session import CompleteElicitation
from fairlead_gateway.upstream.upstream_access import UpstreamAccess
from fairlead_mcp.host import ChildHost
from fairlead_mcp.http.dial import CachedNames, Resolve, resolve_by_dns
from fairlead_mcp.oauth.errors import GrantFailed
from fairlead_mcp.via import join_names
from fairlead_offers.router.router_tools import RouterTools
from fairlead_rest.process_outputs import ProcessOutputs
from fairlead_tools.handlers.tools import CustomTools


class ServerAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials, addresses and processes by which a gateway reaches its servers.

    `children` is the host of child processes, or None if there are none. With `shared_children`, the operator starts
    the processes, otherwise the gateway does. `custom` are the tools of the server `local`.
    """

    credentials: Credentials
    resolve: Resolve = resolve_by_dns
    custom: CustomTools = msgspec.field(default_factory=CustomTools)
    children: ChildHost | None = None
    shared_children: bool = True
    outputs: ProcessOutputs | None = None
    """Output of server processes, also of servers that never answered. None means the output of `children`."""


class McpPath(msgspec.Struct, frozen=True, kw_only=True):
    """The MCP endpoint, and the components of the call path that the REST API and the model endpoints use too."""

    endpoint: McpEndpoint
    recorder: ContextRecorder
    caller: Caller
    """Makes tool calls for REST and other internal callers."""


def server_registry(
    shared: SharedParts,
    servers: ServerAccess,
    outbox: Outbox,
    links: SignInLinks,
    router_tools: RouterTools,
    complete: CompleteElicitation,
    session_subject: SessionSubject,
) -> Registry:
    """Create the registry of upstreams."""
    upstream, calls = shared.settings.upstream, shared.settings.calls
    egress = upstream.egress.rules
    cached_names = CachedNames(servers.resolve, shared.clock)

    def observe_grant(server: ServerKey, identity: Identity, failure: GrantFailed | None, seconds: float) -> None:
        cause = "" if failure is None else failure.cause
        shared.metrics.grants.count(server, cause or GRANTED, seconds)
        outbox.failing_grants.observe(server, failure)
        auditor = shared.governance.auditor
        if auditor is not None:
            auditor.record_grant(identity, server, cause, seconds)

    def local_upstream(limit: int) -> Upstream:
        from fairlead_gateway.custom.upstream import LocalUpstream  # most gateways have no tools of their own

        return LocalUpstream(servers.custom, limit=limit, threads=calls.custom.threads, clock=shared.clock)

    access = UpstreamAccess(
        client=CLIENT,
        installation=shared.installation,
        credentials=servers.credentials,
        resolve=lambda key: egress.guard(cached_names, key.namespace),
        resolve_recent=lambda key: egress.guard(cached_names.recent, key.namespace),
        children=servers.children,
        shared_children=servers.shared_children,
        local=local_upstream,
        make_result=router_tools.api_result,
        keep_tokens=shared.identities.keep_tokens,
        observe_grant=observe_grant,
        forget_grants=outbox.failing_grants.forget,
        complete_elicitation=complete,
        is_own_audience=shared.trust.audiences.accepts,
        links=links,
        session_subject=session_subject,
        grants=shared.grants,
    )
    return Registry(
        access,
        upstream,
        shares=shared.metrics.shares,
        sharing=shared.governance.sharing,
        on_unreachable=outbox.server_lost,
    )


def call_path(shared: SharedParts, registry: Registry, router_tools: RouterTools, sign_ins: SignInWait) -> McpPath:
    """Create the MCP endpoint. `router_tools` are the gateway's own tools. Raises BadSetting."""
    settings, clock = shared.settings, shared.clock
    calls, counts = settings.calls, shared.metrics.shares
    key = settings.installation.session_key.encode()
    recorder = ContextRecorder(result_store(settings.results, settings.limits.redis, clock), key)
    keeper = ResultKeeper(recorder, router_tools, shared.metrics, router_tools)
    subscriptions = ResourceSubscriptions(CLIENT, clock)
    tasks = ClientTasks(TaskIds(key), OpenTasks(calls.open_tasks, clock), shared.metrics, CLIENT, clock)
    task_subscriptions = TaskSubscriptions(tasks, shared.governance.auditor, keeper)
    streams = NotificationStreams(
        subscriptions,
        task_subscriptions,
        shared.identities,
        shared.served.get,
        settings.listening.limits.streams_each,
        counts,
    )
    server_requests = ServerRequests(SessionIds(key), streams.notify, counts=counts)
    context = CallContext(
        shared.metrics,
        Introduction(CLIENT, SERVER_INFO),
        server_requests,
        subscriptions,
        Bridge(clock, counts=counts),
        CallServices(
            cache=ResultCache(calls.result_cache_bytes, clock),
            limiter=shared.governance.limiter,
            auditor=shared.governance.auditor,
            spans=shared.governance.spans,
            keeper=keeper,
            recent=shared.governance.recent,
            tasks=tasks,
            state_signer=RequestStateSigner(key),
            repeat_states=RepeatStates(key),
            sign_ins=sign_ins,
            end_upstream_session=registry.end_session,
            clock=clock,
        ),
    )
    dispatcher, own_tools = Dispatcher(context), OwnToolCalls(context, router_tools)
    endpoint = _endpoint(shared, dispatcher, own_tools, recorder, streams)
    return McpPath(endpoint=endpoint, recorder=recorder, caller=Caller(dispatcher, own_tools, shared.buffers))


def _endpoint(
    shared: SharedParts,
    dispatcher: Dispatcher,
    own_tools: OwnToolCalls,
    recorder: ContextRecorder,
    streams: NotificationStreams,
) -> McpEndpoint:
    """Create the MCP endpoint from the parts of the call path. Raises BadSetting."""
    settings, requests = shared.settings, dispatcher.context.server_requests

    def installations(base: bytes) -> list[str]:
        """Names of this installation and of the installations behind the endpoint `base`. A client that is a gateway
        itself looks for its own name among them, to detect a loop.
        """
        return join_names(shared.installation, gateways_behind(shared.served.get().snapshot, base))

    handlers = RequestHandlers(
        dispatcher,
        BuiltinMethods(SERVER_INFO, requests.sessions, requests.set_level, installations),
        own_tools,
        recorder,
        shared.startup_wait,
        settings.results.router_tokens or None,
    )
    return McpEndpoint(
        ClientAccess(shared.allow, shared.identities, shared.resource, shared.installation),
        handlers,
        streams,
        EventStore(shared.clock, cancels_abandoned=settings.calls.cancel_abandoned, counts=shared.metrics.shares),
        PortLimits(settings.listening.limits, shared.proxies, shared.buffers),
        shared.served,
    )
