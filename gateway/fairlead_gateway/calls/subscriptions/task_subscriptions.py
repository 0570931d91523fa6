"""Subscriptions of clients to tasks, by `taskIds` of `subscriptions/listen` (SEP-2663, Task Status Notifications).

Servers need not send task notifications, and few do. Each task is therefore polled by `tasks/get`: at once when the
server sends a notification, and otherwise at the task's `pollIntervalMs`. The client is notified when the answer
differs from the previous answer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw

from fairlead_api.documents.catalog import HttpEndpoint
from fairlead_gateway.audit.auditor import Auditor
from fairlead_gateway.audit.entry import AuditedCall
from fairlead_gateway.calls.results.result_keeper import ResultKeeper
from fairlead_gateway.calls.subscriptions.watches import WatchTasks
from fairlead_gateway.calls.tasks.client_tasks import ClientTasks, TaskNotice, failed_notice, read_notice, route_of
from fairlead_gateway.calls.tasks.task_wait import ServerTask
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.request import Exchange, McpRequest, agent_of
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.task import TaskRef
from fairlead_gateway.core.upstream_request import UpstreamRequest
from fairlead_gateway.policy.view import View
from fairlead_gateway.sending import result_as
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.errors import McpError, NotMcp, RpcError, TooLarge
from fairlead_mcp.messages import Message

GET: Final = "tasks/get"
NOTIFIED: Final = "notifications/tasks"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
MIN_POLL_SECONDS: Final = 0.25
"""Shortest interval between two polls of a stream's tasks."""
MAX_POLL_SECONDS: Final = 30.0
"""Poll interval of tasks whose server sends notifications or cannot be reached, and upper bound for all others."""
DEFAULT_POLL_SECONDS: Final = 1.0
"""Poll interval of tasks without `pollIntervalMs`."""
NEVER: Final = float("inf")
"""Deadline of a request that may stay open without limit."""


class TaskListener(NamedTuple):
    """Client that is subscribed to tasks."""

    exchange: Exchange
    find: Callable[[TaskRef], Route | None]
    """Returns the route to a task, or None if the client may no longer see it; called before each poll."""
    notify: Callable[[bytes], bool]
    """Sends a notification with the given params; False if the client does not read."""
    capabilities: bytes
    """Client capabilities, raw JSON."""


class _NotificationParams(msgspec.Struct):
    task_id: str = msgspec.field(name="taskId", default="")


class _GrantedFilter(msgspec.Struct):
    task_ids: list[str] = msgspec.field(name="taskIds", default_factory=list)


class _AcknowledgedParams(msgspec.Struct):
    notifications: _GrantedFilter


class TaskSubscriptions:
    """Task subscriptions of one gateway. The `key` of a subscription is any hashable value."""

    def __init__(self, tasks: ClientTasks, auditor: Auditor | None = None, keeper: ResultKeeper | None = None) -> None:
        self.tasks = tasks
        self._auditor = auditor
        self._keeper = keeper
        self._watches = WatchTasks()

    def __len__(self) -> int:
        return len(self._watches)

    def route(self, view: View, task: TaskRef) -> Route | None:
        """Route of `tasks/get` for a task; None if the view does not show the tool that created it."""
        return route_of(self.tasks.metrics, view, task, GET)

    def find(self, view: View, sealed_id: str, identity: Identity) -> TaskRef | None:
        """The task with a sealed id; None unless the task belongs to the principal and the view shows its tool."""
        task = self.tasks.ids.open(sealed_id, identity)
        return None if task is None or self.route(view, task) is None else task

    def subscribe(self, key: object, listener: TaskListener, tasks: Sequence[TaskRef]) -> None:
        """Subscribe to `tasks`, which run at one pod. Replaces a subscription with an equal key."""
        watch = _TaskWatch(self, listener, tasks)
        agent = agent_of(listener.exchange)
        self._watches.start(key, agent, watch.run(), f"listen to tasks of {tasks[0].server}")

    def unsubscribe(self, key: object) -> None:
        self._watches.stop(key)

    async def limit_result(self, exchange: Exchange, route: Route, notice: TaskNotice) -> TaskNotice:
        """A notification with the task's result shortened to the limit of its tool and policies."""
        max_tokens = route.result_tokens
        if max_tokens is None or self._keeper is None or not notice.ended:
            return notice
        request = McpRequest(modern=True, method=GET, id=b"0", params={}, session=None)
        params = await self._keeper.shorten_task_result(exchange.identity, request, route, max_tokens, notice.params)
        return notice._replace(params=bytes(params))

    def close(self, exchange: Exchange, task: TaskRef, notice: TaskNotice) -> None:
        """Record that a client was notified of the end of its task, which no longer counts as open."""
        self.tasks.open_tasks.remove(agent_of(exchange), task.sealed_id)
        if self._auditor is not None:
            call = AuditedCall(NOTIFIED, task.tool, {}, notice.code, task.server, size=len(notice.params))
            self._auditor.record_call(exchange, call)


class _TaskWatch:
    """The tasks of one pod that one stream is subscribed to."""

    def __init__(self, subscriptions: TaskSubscriptions, listener: TaskListener, tasks: Sequence[TaskRef]) -> None:
        self._subscriptions = subscriptions
        self._listener = listener
        self._open_tasks = {task.id: task for task in tasks}
        """Unfinished tasks by the server's own id."""
        self._sent_states: dict[str, int] = {}
        """`TaskNotice.state` of the last notification that the client got, by the server's task id."""
        self._pushed_by_server: set[str] = set()
        """Ids of tasks for which the server sends notifications."""
        self._poll_delays: dict[str, float] = {}
        """Seconds until the next poll, by task id."""
        self._due_ids = {*self._open_tasks}
        """Ids of tasks to be polled next; all open tasks if empty."""
        self._wake_up = asyncio.Event()
        """Set to poll before the interval has passed."""

    async def run(self) -> None:
        """Poll until all tasks have ended, or the client may no longer see them."""
        listen_task = asyncio.get_running_loop().create_task(self._listen(), name="listen to a server's tasks")
        try:
            while True:
                due_ids, self._due_ids = self._due_ids & self._open_tasks.keys() or {*self._open_tasks}, set()
                for ident in due_ids:
                    self._poll_delays[ident] = await self._poll(self._open_tasks[ident])
                if not self._open_tasks:
                    return
                await asyncio.sleep(MIN_POLL_SECONDS)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(self._poll_delays[ident] for ident in self._open_tasks)):
                        await self._wake_up.wait()
                self._wake_up.clear()
        finally:
            listen_task.cancel()

    async def _poll(self, task: TaskRef) -> float:
        """Poll a task and notify its client of a change. Returns the seconds until the next poll."""
        listener, subscriptions = self._listener, self._subscriptions
        route = listener.find(task)
        if route is None:
            del self._open_tasks[task.id]
            return MAX_POLL_SECONDS
        tasks = subscriptions.tasks
        server_task = ServerTask(route, task.id, task.pod, listener.capabilities, listener.exchange.identity)
        try:
            request = server_task.request(tasks.client, GET, {}, tasks.clock() + route.timeout)
            notice = read_notice(route, await server_task.result_of(request))
        except TooLarge as error:  # the answer would be too large each time
            notice = failed_notice(task, error)
        except (RpcError, NotMcp):  # the task has expired or is lost, as the client learns from its own `tasks/get`
            del self._open_tasks[task.id]
            return MAX_POLL_SECONDS
        except McpError:
            return MAX_POLL_SECONDS
        has_changed = self._sent_states.get(task.id) != notice.state
        if has_changed:
            notice = await subscriptions.limit_result(listener.exchange, route, notice)
        if has_changed and listener.find(task) is not None and listener.notify(notice.params):
            self._sent_states[task.id] = notice.state
            if notice.ended:
                del self._open_tasks[task.id]
                subscriptions.close(listener.exchange, task, notice)
        if task.id in self._pushed_by_server:
            return MAX_POLL_SECONDS
        return (
            DEFAULT_POLL_SECONDS
            if notice.poll_ms is None
            else min(max(notice.poll_ms / 1000, MIN_POLL_SECONDS), MAX_POLL_SECONDS)
        )

    async def _listen(self) -> None:
        """Subscribe to the server's notifications about the tasks, if the server supports that."""
        listener = self._listener
        route = listener.find(next(iter(self._open_tasks.values())))
        if route is None or not isinstance(route.server.catalog.endpoint, HttpEndpoint):
            return  # all clients share the stream, and its notifications do not name a client
        upstream, pod = route.binding.upstream, next(iter(self._open_tasks.values())).pod
        filter_params = jsonrpc.encode({"notifications": {"taskIds": [*self._open_tasks]}})
        params = eras.modern_params(filter_params, self._subscriptions.tasks.client, listener.capabilities)
        request = UpstreamRequest(upstream.next_id(), "subscriptions/listen", params, NEVER, route.max_bytes)
        request.affinity_tag = pod
        request.listens = True
        with contextlib.suppress(McpError):
            await result_as(route.binding, listener.exchange.identity, request, self._take_notification)
        self._pushed_by_server.clear()
        self._wake_up.set()

    def _take_notification(self, message: Message) -> None:
        """Take a notification of the server: that a task has changed and is to be polled now, or for which tasks the
        server will send notifications.
        """
        params = message.params if isinstance(message.params, Raw) else Raw(b"{}")
        try:
            if message.method == NOTIFIED:
                task_ids = {msgspec.json.decode(params, type=_NotificationParams).task_id}
            elif message.method == ACKNOWLEDGED:
                task_ids = {*msgspec.json.decode(params, type=_AcknowledgedParams).notifications.task_ids}
                self._pushed_by_server = self._open_tasks.keys() & task_ids
            else:
                return
        except jsonrpc.UNREADABLE:
            return
        # polls after the acknowledgment too, because the server does not report changes from before it
        self._due_ids |= self._open_tasks.keys() & task_ids
        self._wake_up.set()
