"""Tasks of servers: which call may become one, its sealed id for the client, and the requests about it (SEP-2663).

A task belongs to the principal that created it, and its requests are decided about each time: they reach the
server while the client sees the tool that made the task.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw

from fairlead_gateway.calls.results.outputs import check_output
from fairlead_gateway.calls.routes.routing import task_route
from fairlead_gateway.calls.routes.targets import invalid
from fairlead_gateway.calls.sealed.task_ids import TaskIds
from fairlead_gateway.calls.tasks.open_tasks import OpenTasks
from fairlead_gateway.calls.translation.errors import detail_of
from fairlead_gateway.calls.translation.translate import TranslatedResult
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

NOT_DECLARED: Final = 0
DECLARED: Final = 1
"""By the client, which gets the task."""
WAITED_FOR: Final = 2
"""By the gateway, for a client without tasks."""
WITHHELD: Final = 3
"""The client has too many open, or the server could keep none."""
MAY_BECOME: Final = (DECLARED, WAITED_FOR)
LIMIT_NAME: Final = "openTasks"
"""Limit that a refused call is counted under."""
UNKNOWN: Final = "Unknown task: it has expired, its server or tool is gone, or it belongs to somebody else"
"""One sentence for all of them: nobody learns which tasks others have."""


_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode


class ClientTasks:
    """Tasks that clients of one gateway have at its servers. `client`: the gateway as it introduces itself to them;
    `clock`: seconds, the clock of deadlines.
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
        self.running = TaskSet()
        """Requests about tasks that nobody waits for."""

    def resolve(self, view: View, request: McpRequest, identity: Identity) -> Route | Rejection:
        """Route of a request about a task; puts the server's own id into the params, and into the keys of answers."""
        try:
            sealed = jsonrpc.decode_text(request.params["taskId"])
        except (KeyError, *jsonrpc.UNREADABLE):
            return invalid(request, "params.taskId must be a string")
        task = self.ids.open(sealed, identity)
        if task is None and methods.TASKS not in view.offers.extensions:
            return Rejection(404, jsonrpc.METHOD_NOT_FOUND, f"Method not found: {request.method}", request.id)
        route = None if task is None else route_of(self.metrics, view, task, request.method)
        if task is None or route is None:
            return invalid(request, UNKNOWN)
        params = {**request.params, "taskId": Raw(jsonrpc.encode(task.id))}
        if "inputResponses" in params:
            try:
                given = _decode_members(params["inputResponses"])
            except jsonrpc.UNREADABLE:
                return invalid(request, "params.inputResponses must be an object")
            params["inputResponses"] = Raw(_rekey(given, sealed, task.id))
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
        """Decision what a server is told of tasks with a tool call, and the params for it. `decision`: that before."""
        if "task" in members:  # a wish of 2025-11-25, which nobody here grants and SEP-2663 has servers ignore
            members = {name: value for name, value in members.items() if name != "task"}
        if not modern or methods.TASKS not in request.meta.extensions:
            return decision, members
        if self.may_create(route, agent):
            return DECLARED, members
        return WITHHELD, without_tasks(members)

    def may_create(self, route: Route, agent: str) -> bool:
        """Whether a call of an agent whose client declares tasks may become one."""
        return route.upstream.keeps_tasks and self.open_tasks.room(agent)

    def hand_over(self, exchange: Exchange, route: Route, result: bytes | Raw) -> bytes:
        """The first answer of a task, under its sealed id. Raises NotMcp for another shape."""
        task = server_tasks.read(result)
        sealed = self.ids.seal(task.task_id, route.server.key, route.name, exchange.identity)
        if task.status not in TERMINAL:
            self.open_tasks.add(agent_of(exchange), sealed, task.ttl_ms)
        return _rename(jsonrpc.decode_object(result), task, sealed, route)

    def translate_answer(self, exchange: Exchange, route: Route, outcome: TranslatedResult, method: str) -> bytes:
        """The answer to a request about a task, under the id that the client has. Raises NotMcp for another shape."""
        ref = route.task
        assert ref is not None
        agent = agent_of(exchange)
        if method in (CANCEL, UPDATE):
            if method == CANCEL:
                self.open_tasks.remove(agent, ref.sealed)
            return bytes(outcome.result)
        task = server_tasks.read(outcome.result)
        if task.status in TERMINAL:
            self.open_tasks.remove(agent, ref.sealed)
        return _rename(jsonrpc.decode_object(outcome.result), task, ref.sealed, route)

    def over_limit_refusal(self, route: Route, agent: str, *, waits: bool) -> Refusal | None:
        """Refusal of a tool that is a task always, where its caller or its server has as many as it may; None where
        there is room for more. `waits`: the call waits for its task, which is none that its caller has open.
        """
        open_tasks = self.open_tasks
        if not waits and not open_tasks.room(agent):
            message = f"you have {open_tasks.most} open tasks, which is the most: wait for one to end, or cancel it"
        elif not route.upstream.keeps_tasks:
            message = (
                f"{route.server.key} has a task in half of the processes that it may have "
                "(FAIRLEAD_UPSTREAM_SESSIONS), which is the most: wait for one to end, or cancel it"
            )
        else:
            return None
        return Refusal(RATE_LIMITED, message)


def route_of(metrics: MetricsRegistry, view: View, task: TaskRef, method: str) -> Route | None:
    """Route of a request about a task; None where the view does not show the tool that made it."""
    made_by = view.tool_of(task.server, task.tool)
    if made_by is None:
        return None
    task.check = made_by.check
    recorder = metrics.recorder(method, "", str(task.server))
    return task_route(made_by, task, recorder, idempotent=methods.METHODS[method].idempotent)


class TaskNotice(NamedTuple):
    """A task as its client is notified of it."""

    params: bytes
    """Members of `notifications/tasks`, raw JSON."""
    state: int
    """Hash of all that it says but the time: servers are known that say a new one in each answer."""
    ended: bool
    poll_ms: int | None
    """`pollIntervalMs` of its server."""
    code: str = ""
    """Code of a refusal, for what the gateway cannot pass on."""


def read_notice(route: Route, answer: Raw) -> TaskNotice:
    """Notification out of an answer to `tasks/get`. Raises NotMcp for another shape."""
    assert route.task is not None
    task, members = server_tasks.read(answer), jsonrpc.decode_object(answer)
    for name in ("resultType", "_meta"):
        members.pop(name, None)
    state = hash(jsonrpc.encode({name: value for name, value in members.items() if name != "lastUpdatedAt"}))
    told = _rename(members, task, route.task.sealed, route)
    if route.uris is not None:
        told = bytes(route.uris.show_in(told, methods.METHODS["tasks/get"].uris))
    return TaskNotice(bytes(escape(told)) if route.escapes else told, state, task.status in TERMINAL, task.poll_ms)


def failed_notice(task: TaskRef, error: McpError) -> TaskNotice:
    """Notification of a task whose answer to `tasks/get` cannot be passed on: `failed`, with the error that `tasks/get`
    is answered with. Its times are those of the notification, for the task's own were not read.
    """
    refusal = refusals.refusal_for(error)
    now = datetime.now(UTC).isoformat()
    told = jsonrpc.encode(
        {
            "taskId": task.sealed,
            "status": "failed",
            "createdAt": now,
            "lastUpdatedAt": now,
            "ttlMs": None,
            "error": {"code": jsonrpc.INTERNAL_ERROR, "message": refusal.message, "data": detail_of(refusal)},
        }
    )
    return TaskNotice(told, hash(refusal.code), ended=True, poll_ms=None, code=refusal.code)


def _rename(members: jsonrpc.RawObject, task: Task, sealed: str, route: Route) -> bytes:
    members["taskId"] = Raw(jsonrpc.encode(sealed))
    own = task.task_id if route.task is None else route.task.id
    if task.questions is not UNSET and len(task.questions) > MAX_QUESTIONS:
        raise NotMcp(f"the task asks more than {MAX_QUESTIONS} questions at once")
    if task.questions is not UNSET and own:
        members["inputRequests"] = Raw(_rekey(task.questions, own, sealed))
    ref = route.task
    if task.result is not UNSET and ref is not None:
        result = _strict(task.result)
        members["result"] = Raw(
            check_output(ref.check, route.server.key, TranslatedResult(result, _is_error(result))).result
        )
    return jsonrpc.encode(members)


def _strict(result: Raw) -> bytes | Raw:
    try:
        return tool_results.conform(result)
    except jsonrpc.UNREADABLE as error:
        raise NotMcp(f"the server sent something else than a tool's result ({error})") from error


def without_tasks(members: jsonrpc.RawObject) -> jsonrpc.RawObject:
    """Params without the client's declaration of tasks, for a call that may not become one."""
    meta = jsonrpc.decode_object(members["_meta"])
    declared = jsonrpc.decode_object(meta[eras.META_CAPABILITIES])
    extensions = {**capabilities.extension_settings(meta[eras.META_CAPABILITIES])}
    extensions.pop(methods.TASKS, None)
    declared["extensions"] = Raw(jsonrpc.encode(extensions))
    meta[eras.META_CAPABILITIES] = Raw(jsonrpc.encode(declared))
    return {**members, "_meta": Raw(jsonrpc.encode(meta))}


def declaring(declared: bytes | None) -> bytes:
    """Client capabilities, raw JSON, with tasks among the extensions."""
    return capabilities.add_extension(declared, methods.TASKS)


def under_client_id(error: RpcError, route: Route) -> RpcError:
    """A server's error about a task, under the id that the client has."""
    assert route.task is not None
    message = error.message.replace(route.task.id, route.task.sealed) if route.task.id else error.message
    return RpcError(error.code, message, error.data, status=error.status)


def _rekey(members: dict[str, Raw], old: str, new: str) -> bytes:
    """Members whose keys name a task by another id: servers are known that put theirs into them."""
    return jsonrpc.encode({key.replace(old, new, 1): value for key, value in members.items()})


def _is_error(result: bytes | Raw) -> bool:
    try:
        return bytes(jsonrpc.decode_object(result).get("isError", b"")) == b"true"
    except jsonrpc.UNREADABLE:
        return False
