"""Services that all calls of one gateway share, and the calls in progress."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol

from fairlead_gateway.audit.auditor import Auditor
from fairlead_gateway.calls.path.watched_calls import WatchedCalls
from fairlead_gateway.calls.questions.input_required import Bridge
from fairlead_gateway.calls.questions.server_requests import ServerRequests
from fairlead_gateway.calls.results.cache import ResultCache
from fairlead_gateway.calls.results.mended_results import MendedResults
from fairlead_gateway.calls.results.result_keeper import ResultKeeper
from fairlead_gateway.calls.sealed.request_state import RequestStateSigner
from fairlead_gateway.calls.sealed.task_ids import TaskIds
from fairlead_gateway.calls.subscriptions.resource_subscriptions import ResourceSubscriptions
from fairlead_gateway.calls.tasks.client_tasks import ClientTasks
from fairlead_gateway.calls.tasks.open_tasks import OpenTasks
from fairlead_gateway.core.request import McpRequest
from fairlead_gateway.core.route import Route
from fairlead_gateway.limits.limiter import Limiter
from fairlead_gateway.recent.ring import RecentCalls
from fairlead_gateway.telemetry import MetricsRegistry
from fairlead_gateway.tracing.spans import Spans
from fairlead_mcp import eras


class OpenCall(Protocol):
    """Request of a client without an answer yet."""

    request: McpRequest
    route: Route

    def cancel(self) -> None:
        """Give the request up, for its client did or is gone. No-op when it is answered."""
        ...


class CallContext:
    """Services of one gateway's calls. `clock`: seconds, the clock of upstreams' deadlines."""

    def __init__(
        self,
        metrics: MetricsRegistry,
        client: eras.Client,
        server_info: bytes,
        server_requests: ServerRequests,
        subscriptions: ResourceSubscriptions,
        bridge: Bridge[Any],
        clock: Callable[[], float] = time.monotonic,
        cache: ResultCache | None = None,
        limiter: Limiter | None = None,
        auditor: Auditor | None = None,
        spans: Spans | None = None,
        state_signer: RequestStateSigner | None = None,
        end_upstream_session: Callable[[bytes], None] | None = None,
        task_ids: TaskIds | None = None,
        open_tasks: OpenTasks | None = None,
        keeper: ResultKeeper | None = None,
        recent: RecentCalls | None = None,
    ) -> None:
        """`end_upstream_session` ends what servers keep for a session that its client gave up."""
        self.metrics = metrics
        self.client = client
        """The gateway as it introduces itself to servers."""
        self.server_info = server_info
        """The gateway as it introduces itself to clients, raw JSON."""
        self.server_requests = server_requests
        self.levels = server_requests.levels
        """Read with every call of a legacy session, so kept beside the rest."""
        self.subscriptions = subscriptions
        self.bridge = bridge
        self.clock = clock
        self.cache = ResultCache(0) if cache is None else cache
        self.limiter = limiter
        self.auditor = auditor
        self.spans = spans
        self.state_signer = RequestStateSigner() if state_signer is None else state_signer
        if open_tasks is None:
            open_tasks = OpenTasks(0, clock)
        self.tasks = ClientTasks(task_ids or TaskIds(), open_tasks, metrics, client, clock)
        self.keeper = keeper
        self.mended = MendedResults()
        self.watched = WatchedCalls(clock)
        """Calls whose deadlines progress moves."""
        self.recent = recent
        """The last calls, where they are kept."""
        self._end_upstream_session = end_upstream_session
        self.calls: set[OpenCall] = set()
        """Requests to servers without an answer yet."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._quiet: asyncio.Event | None = None

    def begin(self, call: OpenCall) -> None:
        self.calls.add(call)
        self.metrics.in_flight += 1

    def end(self, call: OpenCall) -> None:
        self.calls.discard(call)
        self.metrics.in_flight -= 1
        if self._quiet is not None and not self.calls:
            self._quiet.set()

    def own(self, task: asyncio.Task[None]) -> None:
        """Keep a task of a call until it is done."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def cancel(self, session: bytes | None, request_id: bytes) -> None:
        """A legacy client gives a request up; no-op where there is none of that session and id."""
        if session is None:
            return
        # a search, for an index would be written and erased with every call
        for call in [*self.calls]:
            if call.request.id == request_id and call.request.session == session:
                call.cancel()

    def end_session(self, session: bytes) -> None:
        """A legacy client gives its session up, and so the requests that it made in it."""
        for call in [*self.calls]:
            if call.request.session == session:
                call.cancel()
        if self._end_upstream_session is not None:
            self._end_upstream_session(session)

    async def quiet(self) -> None:
        """Return when no call is in progress."""
        while self.calls:
            self._quiet = asyncio.Event()
            await self._quiet.wait()
