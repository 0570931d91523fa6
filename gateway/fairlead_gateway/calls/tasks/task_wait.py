"""Waits for a task on behalf of a client without tasks: the answer to its call is what the task ends with (SEP-2663).

The client hears progress with each poll, and the task's questions on the stream of its call. The task is cancelled at
its server when the client gives up, the time of the call is over, or nobody can answer a question.
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
from fairlead_gateway.calls.tasks.client_tasks import ClientTasks, declaring
from fairlead_gateway.core.request import Exchange
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.upstream_request import UpstreamRequest
from fairlead_gateway.sending import result_of
from fairlead_gateway.upstream import affinity
from fairlead_mcp import eras, jsonrpc, progress_token, server_tasks, task_polling
from fairlead_mcp.errors import McpError, NotMcp
from fairlead_mcp.escaping import escape
from fairlead_mcp.progress_token import ProgressToken
from fairlead_mcp.server_tasks import CANCEL
from fairlead_mcp.task_polling import CANCEL_SECONDS

_decode_questions = msgspec.json.Decoder(dict[str, round_trips.Question]).decode


class ServerTask(NamedTuple):
    """A task that a server has made of a call."""

    route: Route
    id: str
    """The server's own."""
    pod: bytes | None
    """Tag of the pod that has it (`upstream.affinity`)."""
    capabilities: bytes
    """Those of the client, raw JSON, which requests about the task declare."""

    @classmethod
    def of(cls, route: Route, created: bytes | Raw, capabilities: bytes | None) -> ServerTask:
        """The task of a first answer. Raises NotMcp for an answer of another shape."""
        task_id, pod = affinity.split(server_tasks.read(created).task_id)
        return cls(route, task_id, pod, declaring(capabilities))

    def request(self, client: eras.Client, method: str, params: jsonrpc.RawObject, deadline: float) -> UpstreamRequest:
        """A request about the task, of the gateway's own, to the pod that has it."""
        members = jsonrpc.encode({**params, "taskId": self.id})
        body = eras.modern_params(members, client, self.capabilities)
        ident = self.route.binding.upstream.next_id()
        made = UpstreamRequest(ident, method, body, deadline, self.route.max_bytes)
        made.name_lines = name_lines(self.id)
        made.instance = self.pod
        return made


class TaskWait:
    """One task that is waited for. `tell` gets what the task says of itself with each poll; `deadline` is in seconds of
    the tasks' clock; `asks` is called before the client is asked anything.
    """

    def __init__(
        self,
        tasks: ClientTasks,
        task: ServerTask,
        relay: MessageRelay,
        tell: Callable[[str], None],
        deadline: float,
        *,
        asks: Callable[[], None],
    ) -> None:
        self._tasks = tasks
        self._asks = asks
        self._task = task
        self._relay = relay
        self._tell = tell
        self._deadline = deadline

    async def outcome(self, created: Raw) -> Raw:
        """As of `task_polling.wait_for_result`, from the first answer on."""
        return await task_polling.wait_for_result(created, self)

    async def ask(self, method: str, params: jsonrpc.RawObject) -> Raw:
        made = self._task.request(self._tasks.client, method, params, self._deadline)
        return await result_of(self._task.route.binding.upstream, made)

    async def answer(self, raw_questions: dict[str, Raw]) -> jsonrpc.RawObject:
        try:
            questions = _decode_questions(jsonrpc.encode(raw_questions))
        except jsonrpc.UNREADABLE as error:
            raise NotMcp("the task asks for input in an unknown form") from error
        self._asks()
        asking = round_trips.InputRequired(questions=questions)
        return await round_trips.answers(self._relay, asking, self.seconds_left())

    def tell(self, status: str) -> None:
        self._tell(status)

    def seconds_left(self) -> float:
        return self._deadline - self._tasks.clock()

    def cancel(self) -> None:
        _cancel_soon(self._tasks, self._task)


def progress(exchange: Exchange, token: ProgressToken | None, *, escapes: bool) -> Callable[[str], None]:
    """Function that reports what a task says of itself to a client, as progress under its token, if it has one."""
    count = itertools.count(1).__next__

    def tell(status: str) -> None:
        if token is not None:
            params = {progress_token.NAME: Raw(token.value), "progress": count(), "message": status}
            body = jsonrpc.notification("notifications/progress", jsonrpc.encode(params))
            exchange.notify(bytes(escape(body)) if escapes else body)

    return tell


def cancel_soon(tasks: ClientTasks, route: Route, created: bytes | Raw) -> None:
    """Have the task of this first answer cancelled; what becomes of that nobody waits for. Raises NotMcp for another
    shape.
    """
    _cancel_soon(tasks, ServerTask.of(route, created, None))


def _cancel_soon(tasks: ClientTasks, task: ServerTask) -> None:
    made = task.request(tasks.client, CANCEL, {}, tasks.clock() + CANCEL_SECONDS)
    tasks.running.start(_cancel(task.route, made), "cancel a task")


async def _cancel(route: Route, made: UpstreamRequest) -> None:
    with contextlib.suppress(McpError):  # it ends by its ttlMs
        await result_of(route.binding.upstream, made)
