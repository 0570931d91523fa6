"""Waits for a server's task on behalf of a client that does not support tasks, and returns the result (SEP-2663).

The client gets a progress notification with each poll, and the task's questions on the stream of its call. The task is
cancelled if the client cancels the call, if the deadline passes, or if a question cannot be answered.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import NamedTuple

import msgspec
from msgspec import Raw

from fairlead_gateway.calls.questions import round_trips
from fairlead_gateway.calls.questions.message_relay import MessageRelay
from fairlead_gateway.calls.routes.routing import name_lines
from fairlead_gateway.calls.tasks.client_tasks import ClientTasks, with_tasks_extension
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.request import Exchange
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.upstream_request import UpstreamRequest
from fairlead_gateway.sending import result_as
from fairlead_gateway.upstream import affinity
from fairlead_mcp import eras, jsonrpc, progress_token, server_tasks, task_polling
from fairlead_mcp.errors import McpError, NotMcp
from fairlead_mcp.escaping import escape
from fairlead_mcp.progress_token import ProgressToken
from fairlead_mcp.server_tasks import CANCEL
from fairlead_mcp.task_polling import CANCEL_SECONDS

_decode_questions = msgspec.json.Decoder(dict[str, round_trips.Question]).decode


class ServerTask(NamedTuple):
    """A task that a server has created for a call."""

    route: Route
    id: str
    """The server's own task id."""
    pod: bytes | None
    """Tag of the pod that runs the task (`upstream.affinity`)."""
    capabilities: bytes
    """Client capabilities, raw JSON, declared by all requests about the task."""
    identity: Identity
    """Caller to whom the task belongs."""

    @classmethod
    def of(cls, route: Route, first_answer: bytes | Raw, capabilities: bytes | None, identity: Identity) -> ServerTask:
        """The task that a `tools/call` result names. Raises NotMcp if the result is not a task."""
        task_id, pod = affinity.split(server_tasks.read(first_answer).task_id)
        return cls(route, task_id, pod, with_tasks_extension(capabilities), identity)

    def request(self, client: eras.Client, method: str, params: jsonrpc.RawObject, deadline: float) -> UpstreamRequest:
        """A request of the gateway itself about the task, addressed to the task's pod."""
        members = jsonrpc.encode({**params, "taskId": self.id})
        body = eras.modern_params(members, client, self.capabilities)
        ident = self.route.binding.upstream.next_id()
        request = UpstreamRequest(ident, method, body, deadline, self.route.max_bytes)
        request.name_lines = name_lines(self.id)
        request.affinity_tag = self.pod
        return request

    async def result_of(self, request: UpstreamRequest) -> Raw:
        """Send a request about the task, on behalf of its owner. Raises McpError."""
        return await result_as(self.route.binding, self.identity, request)


class TaskWait:
    """Waits for one task, and passes its questions to the client through `relay`.

    `report` gets the task's status message with each poll. `deadline` is in seconds of `ClientTasks.clock`.
    `on_questions` is called before the client is asked anything.
    """

    def __init__(
        self,
        tasks: ClientTasks,
        task: ServerTask,
        relay: MessageRelay,
        report: Callable[[str], None],
        deadline: float,
        *,
        on_questions: Callable[[], None],
    ) -> None:
        self._tasks = tasks
        self._on_questions = on_questions
        self._task = task
        self._relay = relay
        self._report = report
        self._deadline = deadline

    async def outcome(self, first_answer: Raw) -> Raw:
        """Poll the task until it ends; `first_answer` is the result that named the task. Raises like
        `task_polling.wait_for_result`.
        """
        return await task_polling.wait_for_result(first_answer, self)

    async def ask(self, method: str, params: jsonrpc.RawObject) -> Raw:
        request = self._task.request(self._tasks.client, method, params, self._deadline)
        return await self._task.result_of(request)

    async def answer(self, raw_questions: dict[str, Raw]) -> jsonrpc.RawObject:
        try:
            questions = _decode_questions(jsonrpc.encode(raw_questions))
        except jsonrpc.UNREADABLE as error:
            raise NotMcp("the server's task requests input by a message that cannot be read") from error
        self._on_questions()
        input_required = round_trips.InputRequired(questions=questions)
        return await round_trips.ask_client(self._relay, input_required, self.seconds_left())

    def report_status(self, status: str) -> None:
        self._report(status)

    def seconds_left(self) -> float:
        return self._deadline - self._tasks.clock()

    def cancel(self) -> None:
        _cancel_soon(self._tasks, self._task)


def progress_reporter(exchange: Exchange, token: ProgressToken | None, *, must_escape: bool) -> Callable[[str], None]:
    """Function that sends a task's status message to a client as progress; a no-op without a progress token."""
    next_step = itertools.count(1).__next__

    def report(status: str) -> None:
        if token is not None:
            params = {progress_token.NAME: Raw(token.value), "progress": next_step(), "message": status}
            body = jsonrpc.notification("notifications/progress", jsonrpc.encode(params))
            exchange.notify(bytes(escape(body)) if must_escape else body)

    return report


def cancel_soon(tasks: ClientTasks, route: Route, first_answer: bytes | Raw, identity: Identity) -> None:
    """Cancel the task in a `tools/call` result in the background. Raises NotMcp if the result is not a task."""
    _cancel_soon(tasks, ServerTask.of(route, first_answer, None, identity))


def _cancel_soon(tasks: ClientTasks, task: ServerTask) -> None:
    request = task.request(tasks.client, CANCEL, {}, tasks.clock() + CANCEL_SECONDS)
    tasks.background_requests.start(_cancel(task, request), "cancel a task")


async def _cancel(task: ServerTask, request: UpstreamRequest) -> None:
    with contextlib.suppress(McpError):  # the task will end after its `ttlMs`
        await task.result_of(request)
