"""Waits for a task on behalf of a client without tasks: the answer to its call is what the task ends with (SEP-2663).

The client hears progress with each poll, and the task's questions on the stream of its call. The task is cancelled at
its server when the client gives up, the time of the call is over, or nobody can answer a question.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable

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
from fairlead_mcp.escaping import escaped
from fairlead_mcp.progress_token import ProgressToken
from fairlead_mcp.server_tasks import CANCEL
from fairlead_mcp.task_polling import CANCEL_SECONDS

_decode_questions = msgspec.json.Decoder(dict[str, round_trips.Question]).decode


class TaskWait:
    """One task that is waited for. `tell` gets what the task says of itself with each poll; `capabilities` are the
    client's, raw JSON; `deadline` is in seconds of the tasks' clock; `asks` is called before the client is asked
    anything. Raises NotMcp for a first answer of another shape.
    """

    def __init__(
        self,
        tasks: ClientTasks,
        route: Route,
        relay: MessageRelay,
        created: Raw,
        tell: Callable[[str], None],
        capabilities: bytes | None,
        deadline: float,
        *,
        asks: Callable[[], None],
    ) -> None:
        self._tasks = tasks
        self._asks = asks
        self._route = route
        self._relay = relay
        self._created = created
        self._id, self._pod = affinity.split(server_tasks.read(created).task_id)
        self._tell = tell
        self._capabilities = declaring(capabilities)
        self._deadline = deadline

    async def outcome(self) -> Raw:
        """As of `task_polling.outcome`."""
        return await task_polling.outcome(self._created, self)

    async def ask(self, method: str, params: jsonrpc.RawObject) -> Raw:
        made = request(
            self._tasks.client, self._route, method, params, self._id, self._pod, self._capabilities, self._deadline
        )
        return await result_of(self._route.binding.upstream, made)

    async def answer(self, raw_questions: dict[str, Raw]) -> jsonrpc.RawObject:
        try:
            questions = _decode_questions(jsonrpc.encode(raw_questions))
        except jsonrpc.UNREADABLE as error:
            raise NotMcp("the task asks for input in an unknown form") from error
        self._asks()
        asking = round_trips.InputRequired(questions=questions)
        return await round_trips.answers(self._relay, asking, self.left())

    def tell(self, status: str) -> None:
        self._tell(status)

    def left(self) -> float:
        return self._deadline - self._tasks.clock()

    def cancel(self) -> None:
        cancel_soon(self._tasks, self._route, self._created, self._capabilities)


def request(
    client: eras.Client,
    route: Route,
    method: str,
    params: jsonrpc.RawObject,
    task_id: str,
    pod: bytes | None,
    capabilities: bytes,
    deadline: float,
) -> UpstreamRequest:
    """A request about a task, of the gateway's own, to the pod that has it."""
    members = jsonrpc.encode({**params, "taskId": task_id})
    body = eras.modern_params(members, client, capabilities)
    ident = route.binding.upstream.next_id()
    made = UpstreamRequest(ident, method, body, deadline, route.max_bytes)
    made.name_lines = name_lines(task_id)
    made.instance = pod
    return made


def progress(exchange: Exchange, token: ProgressToken | None, *, escapes: bool) -> Callable[[str], None]:
    """Function that reports what a task says of itself to a client, as progress under its token, if it has one."""
    count = itertools.count(1).__next__

    def tell(status: str) -> None:
        if token is not None:
            params = {progress_token.NAME: Raw(token.value), "progress": count(), "message": status}
            body = jsonrpc.notification("notifications/progress", jsonrpc.encode(params))
            exchange.notify(bytes(escaped(body)) if escapes else body)

    return tell


def cancel_soon(tasks: ClientTasks, route: Route, created: bytes | Raw, capabilities: bytes | None = None) -> None:
    """Have the task of this first answer cancelled; what becomes of that nobody waits for. Raises NotMcp for another
    shape.
    """
    task_id, pod = affinity.split(server_tasks.read(created).task_id)
    declared = declaring(None) if capabilities is None else capabilities
    made = request(tasks.client, route, CANCEL, {}, task_id, pod, declared, tasks.clock() + CANCEL_SECONDS)
    tasks.running.start(_cancel(route, made), "cancel a task")


async def _cancel(route: Route, made: UpstreamRequest) -> None:
    with contextlib.suppress(McpError):  # it ends by its ttlMs
        await result_of(route.binding.upstream, made)
