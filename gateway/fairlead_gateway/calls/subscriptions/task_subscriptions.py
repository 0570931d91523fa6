"""Tasks that clients listen to, by `taskIds` of `subscriptions/listen` (SEP-2663, Task Status Notifications).

A server may notify of its tasks or not, and few do. So each task is asked for: at once when its server notifies of it,
else as often as it says by `pollIntervalMs`. What a client is notified of is the answer to that `tasks/get`, where it
differs from the last one.
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
from fairlead_gateway.sending import result_of
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.errors import McpError, NotMcp, RpcError, TooLarge
from fairlead_mcp.messages import Message

GET: Final = "tasks/get"
NOTIFIED: Final = "notifications/tasks"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
SHORTEST: Final = 0.25
"""Seconds between two looks at the tasks of a stream, whatever their server says or sends."""
LONGEST: Final = 30.0
"""Seconds until a task is asked for although its server would notify of it, or cannot be reached."""
DEFAULT_POLL: Final = 1.0
NEVER: Final = float("inf")


class TaskListener(NamedTuple):
    """Client that listens to tasks."""

    exchange: Exchange
    find: Callable[[TaskRef], Route | None]
    """Asked before each request."""
    tell: Callable[[bytes], bool]
    """Gets the params of a notification; False where the client does not read now."""
    capabilities: bytes
    """Raw JSON."""


class _Notified(msgspec.Struct):
    task_id: str = msgspec.field(name="taskId", default="")


class _Granted(msgspec.Struct):
    task_ids: list[str] = msgspec.field(name="taskIds", default_factory=list)


class _Acknowledged(msgspec.Struct):
    notifications: _Granted


class TaskSubscriptions:
    """Tasks of one gateway's clients that are listened to, by holder."""

    def __init__(self, tasks: ClientTasks, auditor: Auditor | None = None, keeper: ResultKeeper | None = None) -> None:
        self.tasks = tasks
        self._auditor = auditor
        self._keeper = keeper
        self._held = WatchTasks()

    def __len__(self) -> int:
        return len(self._held)

    def route(self, view: View, task: TaskRef) -> Route | None:
        """Route to ask for a task; None where the view does not show the tool that made it."""
        return route_of(self.tasks.metrics, view, task, GET)

    def find(self, view: View, sealed: str, identity: Identity) -> TaskRef | None:
        """The task of an id; None where it is not one of this principal that the view shows."""
        task = self.tasks.ids.open(sealed, identity)
        return None if task is None or self.route(view, task) is None else task

    def hold(self, holder: object, listener: TaskListener, tasks: Sequence[TaskRef]) -> None:
        """Listen to tasks of one pod, in place of what the holder had before."""
        watch = _TaskWatch(self, listener, tasks)
        agent = agent_of(listener.exchange)
        self._held.hold(holder, agent, watch.run(), f"listen to tasks of {tasks[0].server}")

    def drop(self, holder: object) -> None:
        self._held.drop(holder)

    async def limit_result(self, exchange: Exchange, route: Route, notice: TaskNotice) -> TaskNotice:
        """A notification with no more of the task's result than its tool or policies allow."""
        most = route.result_tokens
        if most is None or self._keeper is None or not notice.ended:
            return notice
        request = McpRequest(modern=True, method=GET, id=b"0", params={}, session=None)
        params = await self._keeper.of_task(exchange.identity, request, route, most, notice.params)
        return notice._replace(params=bytes(params))

    def close(self, exchange: Exchange, task: TaskRef, notice: TaskNotice) -> None:
        """A client was notified of the end of its task."""
        self.tasks.open_tasks.remove(agent_of(exchange), task.sealed)
        if self._auditor is not None:
            call = AuditedCall(NOTIFIED, task.tool, {}, notice.code, task.server, size=len(notice.params))
            self._auditor.record_call(exchange, call)


class _TaskWatch:
    """Tasks of one pod that one stream listens to."""

    def __init__(self, subscriptions: TaskSubscriptions, listener: TaskListener, tasks: Sequence[TaskRef]) -> None:
        self._subscriptions = subscriptions
        self._listener = listener
        self._open = {task.id: task for task in tasks}
        """By the server's own id."""
        self._told: dict[str, int] = {}
        """State of each in its last notification."""
        self._granted: set[str] = set()
        """Tasks that their server notifies of."""
        self._waits: dict[str, float] = {}
        """Seconds until each is asked for again."""
        self._due = {*self._open}
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Listen until all of them have ended, or are shown no more."""
        listening = asyncio.get_running_loop().create_task(self._listen(), name="listen to a server's tasks")
        try:
            while True:
                due, self._due = self._due & self._open.keys() or {*self._open}, set()
                for ident in due:
                    self._waits[ident] = await self._look(self._open[ident])
                if not self._open:
                    return
                await asyncio.sleep(SHORTEST)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(self._waits[ident] for ident in self._open)):
                        await self._woken.wait()
                self._woken.clear()
        finally:
            listening.cancel()

    async def _look(self, task: TaskRef) -> float:
        """Ask for a task and notify its client; seconds until it should be asked for again."""
        listener, subscriptions = self._listener, self._subscriptions
        route = listener.find(task)
        if route is None:
            del self._open[task.id]
            return LONGEST
        tasks = subscriptions.tasks
        server_task = ServerTask(route, task.id, task.pod, listener.capabilities)
        try:
            made = server_task.request(tasks.client, GET, {}, tasks.clock() + route.timeout)
            notice = read_notice(route, await result_of(route.binding.upstream, made))
        except TooLarge as error:  # and so it would be each time
            notice = failed_notice(task, error)
        except (RpcError, NotMcp):  # it has expired, or its server lost it: who asks for it is told
            del self._open[task.id]
            return LONGEST
        except McpError:
            return LONGEST
        new = self._told.get(task.id) != notice.state
        if new:
            notice = await subscriptions.limit_result(listener.exchange, route, notice)
        if new and listener.find(task) is not None and listener.tell(notice.params):
            self._told[task.id] = notice.state
            if notice.ended:
                del self._open[task.id]
                subscriptions.close(listener.exchange, task, notice)
        if task.id in self._granted:
            return LONGEST
        return DEFAULT_POLL if notice.poll_ms is None else min(max(notice.poll_ms / 1000, SHORTEST), LONGEST)

    async def _listen(self) -> None:
        """Have the server notify of its tasks, where it does such a thing."""
        listener = self._listener
        route = listener.find(next(iter(self._open.values())))
        if route is None or not isinstance(route.server.catalog.endpoint, HttpEndpoint):
            return  # on a stream of messages that clients share nothing says which one a notification is for
        upstream, pod = route.binding.upstream, next(iter(self._open.values())).pod
        wanted = jsonrpc.encode({"notifications": {"taskIds": [*self._open]}})
        params = eras.modern_params(wanted, self._subscriptions.tasks.client, listener.capabilities)
        request = UpstreamRequest(upstream.next_id(), "subscriptions/listen", params, NEVER, route.max_bytes)
        request.instance = pod
        request.listens = True
        with contextlib.suppress(McpError):
            await result_of(upstream, request, self._take_notification)
        self._granted.clear()
        self._woken.set()

    def _take_notification(self, message: Message) -> None:
        """A notification of the server: which task to ask for now, or which it notifies of."""
        params = message.params if isinstance(message.params, Raw) else Raw(b"{}")
        try:
            if message.method == NOTIFIED:
                named = {msgspec.json.decode(params, type=_Notified).task_id}
            elif message.method == ACKNOWLEDGED:
                named = {*msgspec.json.decode(params, type=_Acknowledged).notifications.task_ids}
                self._granted = self._open.keys() & named
            else:
                return
        except jsonrpc.UNREADABLE:
            return
        self._due |= self._open.keys() & named  # with the acknowledgment too: what came before it was not sent
        self._woken.set()
