"""Tasks of servers (SEP-2663): which calls may become tasks, their sealed ids, and the requests about them.

A task belongs to the principal whose call created it. Each request about a task is authorized again: the principal's
view must still show the tool that created the task.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw

from fairlead_gateway.calls.results.outputs import check_output
from fairlead_gateway.calls.routes.routing import task_route
from fairlead_gateway.calls.routes.targets import invalid_params
from fairlead_gateway.calls.sealed.task_ids import TaskIds
from fairlead_gateway.calls.tasks.open_tasks import OpenTasks
from fairlead_gateway.calls.translation.errors import detail_of
from fairlead_gateway.calls.translation.translate import TranslatedResult
from fairlead_gateway.core.call_shape import CallShape
from fairlead_gateway.core.client_message import Rejection
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.request import Exchange, McpRequest, agent_of
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.task import TaskRef
from fairlead_gateway.policy.view import View
from fairlead_gateway.telemetry import MetricsRegistry
from fairlead_mcp import capabilities, eras, jsonrpc, methods, server_tasks, tool_results
from fairlead_mcp.asyncio_tasks import TaskSet
from fairlead_mcp.errors import McpError, NotMcp, RpcError
from fairlead_mcp.escaping import escape
from fairlead_mcp.server_tasks import CANCEL, MAX_QUESTIONS, TERMINAL, UPDATE, Task
from fairlead_tools import refusals
from fairlead_tools.refusal import RATE_LIMITED, Refusal
from fairlead_tools.selection import mark

NOT_DECLARED: Final = 0
"""The call does not declare the tasks extension to the server."""
DECLARED: Final = 1
"""The client declares the tasks extension; it gets the task if the server creates one."""
AWAITED: Final = 2
"""The client does not declare the tasks extension, but the gateway does, and waits for the task's result."""
WITHHELD: Final = 3
"""The client declares the tasks extension, but the gateway does not: the limit on open tasks is reached."""
TASK_DECLARATIONS: Final = (DECLARED, AWAITED)
"""Declarations with which the server may answer a call by a task."""
LIMIT_NAME: Final = "openTasks"
"""Name of the limit on open tasks in metrics."""
UNKNOWN: Final = "Unknown task: it has expired, its server or tool is gone, or it belongs to somebody else"
"""One message for all cases, so that a client cannot probe for the tasks of others."""


_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode


class ClientTasks:
    """Tasks that the gateway's clients have at its servers.

    `client` is the client information that the gateway sends to servers; `clock` is the clock of deadlines, in seconds.
    """

    def __init__(
        self,
        ids: TaskIds,
        open_tasks: OpenTasks,
        metrics: MetricsRegistry,
        client: eras.Client,
        clock: Callable[[], float],
    ) -> None:
        self.ids = ids
        self.open_tasks = open_tasks
        self.metrics = metrics
        self.client = client
        self.clock = clock
        self.background_requests = TaskSet()
        """Background requests about tasks, such as cancellations."""

    def resolve(self, view: View, request: McpRequest, identity: Identity) -> Route | Rejection:
        """Route of a request about a task; replaces the sealed task id in the request's params by the server's own."""
        try:
            sealed_id = jsonrpc.decode_text(request.params["taskId"])
        except (KeyError, *jsonrpc.UNREADABLE):
            return invalid_params(request, "params.taskId must be a string")
        task = self.ids.open(sealed_id, identity)
        if task is None and methods.TASKS not in view.resources.extensions:
            return Rejection(404, jsonrpc.METHOD_NOT_FOUND, f"Method not found: {request.method}", request.id)
        route = None if task is None else route_of(self.metrics, view, task, request.method)
        if task is None or route is None:
            return invalid_params(request, UNKNOWN)
        params = {**request.params, "taskId": Raw(jsonrpc.encode(task.id))}
        if "inputResponses" in params:
            try:
                responses = _decode_members(params["inputResponses"])
            except jsonrpc.UNREADABLE:
                return invalid_params(request, "params.inputResponses must be an object")
            params["inputResponses"] = Raw(_rekey(responses, sealed_id, task.id))
        request.params = params
        return route

    def decide_declaration(
        self,
        route: Route,
        request: McpRequest,
        agent: str,
        members: jsonrpc.RawObject,
        decision: int,
        *,
        modern: bool,
    ) -> tuple[int, jsonrpc.RawObject]:
        """Whether a tool call declares the tasks extension to the server (DECLARED, WITHHELD or as before), and the
        params to send.

        `decision` is the decision so far, `members` are the client's params.
        """
        if "task" in members:  # asks for a task in the form of 2025-11-25, which SEP-2663 ignores
            members = {name: value for name, value in members.items() if name != "task"}
        if not modern or methods.TASKS not in request.meta.extensions:
            return decision, members
        if self.may_create(route, agent):
            return DECLARED, members
        return WITHHELD, without_tasks(members)

    def may_create(self, route: Route, agent: str) -> bool:
        """Whether the agent's call may become a task, if its client declares the tasks extension."""
        return route.upstream.accepts_tasks and self.open_tasks.has_room(agent)

    def hand_over(self, exchange: Exchange, route: Route, result: bytes | Raw) -> bytes:
        """The server's result that names a new task, with the sealed id in place of the server's. Counts the task.

        Raises NotMcp if the result is not a task.
        """
        task = server_tasks.read(result)
        sealed_id = self.ids.seal(task.task_id, route.server.key, route.name, exchange.identity)
        if task.status not in TERMINAL:
            self.open_tasks.add(agent_of(exchange), sealed_id, task.ttl_ms)
        return _with_sealed_ids(jsonrpc.decode_object(result), task, sealed_id, route)

    def translate_answer(self, exchange: Exchange, route: Route, outcome: TranslatedResult, method: str) -> bytes:
        """The answer to a request about a task, with the sealed id in place of the server's.

        Raises NotMcp if the answer is malformed.
        """
        ref = route.task
        assert ref is not None
        agent = agent_of(exchange)
        if method in (CANCEL, UPDATE):
            if method == CANCEL:
                self.open_tasks.remove(agent, ref.sealed_id)
            return bytes(outcome.result)
        task = server_tasks.read(outcome.result)
        if task.status in TERMINAL:
            self.open_tasks.remove(agent, ref.sealed_id)
        return _with_sealed_ids(jsonrpc.decode_object(outcome.result), task, ref.sealed_id, route)

    def over_limit_refusal(self, route: Route, agent: str, *, gateway_waits: bool) -> Refusal | None:
        """Refusal of a call to a tool that always creates a task, if the agent or the server has reached its limit.

        With `gateway_waits` the gateway waits for the task during the call; such a task does not count as open for the
        agent.
        """
        open_tasks = self.open_tasks
        if not gateway_waits and not open_tasks.has_room(agent):
            message = f"you have {open_tasks.limit} open tasks, which is the limit: wait for one to end, or cancel it"
        elif not route.upstream.accepts_tasks:
            message = (
                f"half of the processes that {route.server.key} may have (FAIRLEAD_UPSTREAM_SESSIONS) run a task, "
                "which is the limit: wait for one to end, or cancel it"
            )
        else:
            return None
        return Refusal(RATE_LIMITED, message)


def route_of(metrics: MetricsRegistry, view: View, task: TaskRef, method: str) -> Route | None:
    """Route of a request about a task; None if the view does not show the tool that created it."""
    tool_route = view.tool_of(task.server, task.tool)
    if tool_route is None:
        return None
    task.check = tool_route.check
    task.shape = tool_route.shape
    recorder = metrics.recorder(method, "", str(task.server))
    return task_route(tool_route, task, recorder, idempotent=methods.METHODS[method].idempotent)


class TaskNotice(NamedTuple):
    """State of a task, for the `notifications/tasks` to its client."""

    params: bytes
    """Params of the notification, raw JSON."""
    state: int
    """Hash of the params without `lastUpdatedAt`, which some servers change with every answer."""
    ended: bool
    """Whether the task has ended, so that it will not change again."""
    poll_ms: int | None
    """`pollIntervalMs` of the server, in milliseconds."""
    code: str = ""
    """Code of the refusal, if the server's answer could not be passed on."""


def read_notice(route: Route, answer: Raw) -> TaskNotice:
    """Notification from an answer to `tasks/get`. Raises NotMcp if the answer is not a task."""
    assert route.task is not None
    task, members = server_tasks.read(answer), jsonrpc.decode_object(answer)
    for name in ("resultType", "_meta"):
        members.pop(name, None)
    state = hash(jsonrpc.encode({name: value for name, value in members.items() if name != "lastUpdatedAt"}))
    params = _with_sealed_ids(members, task, route.task.sealed_id, route)
    if route.uris is not None:
        params = bytes(route.uris.show_in(params, methods.METHODS["tasks/get"].uris))
    shown_params = bytes(escape(params)) if route.must_escape else params
    return TaskNotice(shown_params, state, task.status in TERMINAL, task.poll_ms)


def failed_notice(task: TaskRef, error: McpError) -> TaskNotice:
    """Notification that a task failed, because the server's answer to `tasks/get` cannot be passed on.

    `error` is the reason. The time of the notification stands for the task's times, which are unknown.
    """
    refusal = refusals.refusal_for(error)
    now = datetime.now(UTC).isoformat()
    params = jsonrpc.encode(
        {
            "taskId": task.sealed_id,
            "status": "failed",
            "createdAt": now,
            "lastUpdatedAt": now,
            "ttlMs": None,
            "error": {"code": jsonrpc.INTERNAL_ERROR, "message": refusal.message, "data": detail_of(refusal)},
        }
    )
    return TaskNotice(params, hash(refusal.code), ended=True, poll_ms=None, code=refusal.code)


def _with_sealed_ids(members: jsonrpc.RawObject, task: Task, sealed_id: str, route: Route) -> bytes:
    members["taskId"] = Raw(jsonrpc.encode(sealed_id))
    server_task_id = task.task_id if route.task is None else route.task.id
    if task.questions is not UNSET and len(task.questions) > MAX_QUESTIONS:
        raise NotMcp(f"the task asks more than {MAX_QUESTIONS} questions at once")
    if task.questions is not UNSET and server_task_id:
        members["inputRequests"] = Raw(_rekey(task.questions, server_task_id, sealed_id))
    ref = route.task
    if task.result is not UNSET and ref is not None:
        result = _conform(task.result if ref.shape is None else _reshape(ref.shape, task.result))
        members["result"] = Raw(
            check_output(ref.check, route.server.key, TranslatedResult(result, _is_error(result))).result
        )
    return jsonrpc.encode(members)


def _reshape(shape: CallShape, result: Raw) -> Raw:
    reshaped = shape.reshape_small(result)
    return Raw(mark(bytes(result), "no part is selected of large results of tasks")) if reshaped is None else reshaped


def _conform(result: Raw) -> bytes | Raw:
    try:
        return tool_results.conform(result)
    except jsonrpc.UNREADABLE as error:
        raise NotMcp(f"the server sent an invalid tool result ({error})") from error


def without_tasks(members: jsonrpc.RawObject) -> jsonrpc.RawObject:
    """Params without the client's declaration of tasks, for a call that must not become a task."""
    meta = jsonrpc.decode_object(members["_meta"])
    client_capabilities = jsonrpc.decode_object(meta[eras.META_CAPABILITIES])
    extensions = {**capabilities.extension_settings(meta[eras.META_CAPABILITIES])}
    extensions.pop(methods.TASKS, None)
    client_capabilities["extensions"] = Raw(jsonrpc.encode(extensions))
    meta[eras.META_CAPABILITIES] = Raw(jsonrpc.encode(client_capabilities))
    return {**members, "_meta": Raw(jsonrpc.encode(meta))}


def with_tasks_extension(client_capabilities: bytes | None) -> bytes:
    """Client capabilities, raw JSON, with the tasks extension added."""
    return capabilities.add_extension(client_capabilities, methods.TASKS)


def with_sealed_id(error: RpcError, route: Route) -> RpcError:
    """A server's error about a task, with the server's task id replaced by the sealed one."""
    assert route.task is not None
    message = error.message.replace(route.task.id, route.task.sealed_id) if route.task.id else error.message
    return RpcError(error.code, message, error.data, status=error.status)


def _rekey(members: dict[str, Raw], old: str, new: str) -> bytes:
    """Members with the task id `old` in their keys replaced by `new`, as some servers put the task id there."""
    return jsonrpc.encode({key.replace(old, new, 1): value for key, value in members.items()})


def _is_error(result: bytes | Raw) -> bool:
    try:
        return bytes(jsonrpc.decode_object(result).get("isError", b"")) == b"true"
    except jsonrpc.UNREADABLE:
        return False
