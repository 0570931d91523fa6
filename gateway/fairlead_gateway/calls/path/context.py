"""Services that all calls of one gateway share (cache, limits, audit log, tracing), and the calls in progress."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from fairlead_gateway.audit.auditor import Auditor
from fairlead_gateway.calls.path.watched_calls import WatchedCalls
from fairlead_gateway.calls.questions.input_required import Bridge
from fairlead_gateway.calls.questions.server_requests import ServerRequests
from fairlead_gateway.calls.questions.sign_in_questions import NoSignIns, SignInQuestions
from fairlead_gateway.calls.results.cache import ResultCache
from fairlead_gateway.calls.results.mended_results import MendedResults
from fairlead_gateway.calls.results.result_keeper import ResultKeeper
from fairlead_gateway.calls.sealed.repeat_states import RepeatStates
from fairlead_gateway.calls.sealed.request_state import RequestStateSigner
from fairlead_gateway.calls.sealed.task_ids import TaskIds
from fairlead_gateway.calls.subscriptions.resource_subscriptions import ResourceSubscriptions
from fairlead_gateway.calls.tasks.client_tasks import ClientTasks
from fairlead_gateway.calls.tasks.open_tasks import OpenTasks
from fairlead_gateway.core.request import McpRequest
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.sign_in import SignInWait
from fairlead_gateway.limits.limiter import Limiter
from fairlead_gateway.recent.ring import RecentCalls
from fairlead_gateway.telemetry import MetricsRegistry
from fairlead_gateway.tracing.spans import Spans
from fairlead_mcp import eras


class OpenCall(Protocol):
    """Request of a client that is not answered yet."""

    request: McpRequest
    route: Route

    def cancel(self) -> None:
        """Cancel the request, because its client cancelled it or disconnected; no-op once it is answered."""
        ...


class Introduction(NamedTuple):
    """The gateway's names for itself: `clientInfo` towards servers, `serverInfo` towards clients."""

    client: eras.Client
    """Client information, sent to servers."""
    server_info: bytes
    """Server information, sent to clients, raw JSON."""


@dataclass(frozen=True, kw_only=True)
class CallServices:
    """Optional services of calls; None switches a service off, or to a default without settings."""

    cache: ResultCache | None = None
    limiter: Limiter | None = None
    """Quotas of agents, policies and tools."""
    auditor: Auditor | None = None
    """Audit log."""
    spans: Spans | None = None
    """Trace spans."""
    keeper: ResultKeeper | None = None
    """Storage and shortening of long results."""
    recent: RecentCalls | None = None
    """Ring of recent calls."""
    tasks: ClientTasks | None = None
    state_signer: RequestStateSigner | None = None
    repeat_states: RepeatStates | None = None
    sign_ins: SignInWait | None = None
    """User sign-ins to servers."""
    end_upstream_session: Callable[[bytes], None] | None = None
    """Ends the sessions with servers that belong to a client session, given the id of the client session."""
    clock: Callable[[], float] = time.monotonic
    """Clock of deadlines, in seconds."""


class CallContext:
    """Services and open calls of one gateway."""

    def __init__(
        self,
        metrics: MetricsRegistry,
        introduction: Introduction,
        server_requests: ServerRequests,
        subscriptions: ResourceSubscriptions,
        bridge: Bridge[Any],
        services: CallServices,
    ) -> None:
        client, clock = introduction.client, services.clock
        self.metrics = metrics
        self.client = client
        self.server_info = introduction.server_info
        self.server_requests = server_requests
        self.levels = server_requests.levels
        """Log levels by session; copied here, because every call of a legacy session reads them."""
        self.subscriptions = subscriptions
        self.bridge = bridge
        self.clock = clock
        self.cache = ResultCache(0) if services.cache is None else services.cache
        self.limiter = services.limiter
        self.auditor = services.auditor
        self.spans = services.spans
        self.state_signer = RequestStateSigner() if services.state_signer is None else services.state_signer
        self.repeat_states = RepeatStates() if services.repeat_states is None else services.repeat_states
        sign_ins = NoSignIns() if services.sign_ins is None else services.sign_ins
        self.sign_in_questions = SignInQuestions(sign_ins, clock)
        tasks = services.tasks
        if tasks is None:
            tasks = ClientTasks(TaskIds(), OpenTasks(0, clock), metrics, client, clock)
        self.tasks = tasks
        self.keeper = services.keeper
        self.mended_results = MendedResults()
        self.watched_calls = WatchedCalls(clock)
        """Calls whose deadlines are extended by progress."""
        self.recent = services.recent
        self._end_upstream_session = services.end_upstream_session
        self.calls: set[OpenCall] = set()
        """Requests of clients that are not answered yet."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle_event: asyncio.Event | None = None
        """Set when the last call ends; None while nothing waits for that."""

    def begin(self, call: OpenCall) -> None:
        self.calls.add(call)
        self.metrics.in_flight += 1

    def end(self, call: OpenCall) -> None:
        self.calls.discard(call)
        self.metrics.in_flight -= 1
        if self._idle_event is not None and not self.calls:
            self._idle_event.set()
            self._idle_event = None

    def keep_task(self, task: asyncio.Task[None]) -> None:
        """Keep a reference to an asyncio task until it is done."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def cancel(self, session: bytes | None, request_id: bytes) -> None:
        """Cancel a legacy client's open request; no-op if no open request has this session and id."""
        if session is None:
            return
        # a linear search: an index would cost every call an update, and cancellations are rare
        for call in [*self.calls]:
            if call.request.id == request_id and call.request.session == session:
                call.cancel()

    def end_session(self, session: bytes) -> None:
        """End the session of a legacy client, and cancel its open requests."""
        for call in [*self.calls]:
            if call.request.session == session:
                call.cancel()
        if self._end_upstream_session is not None:
            self._end_upstream_session(session)

    async def wait_until_idle(self) -> None:
        """Return when no call is in progress."""
        while self.calls:
            if self._idle_event is None:
                self._idle_event = asyncio.Event()
            await self._idle_event.wait()
