"""Upstream of a server with `session: PerClient`: each client session has its own session or process at the server.

A server session ends with the client's session, after a time without calls, or to make room for another session.
Requests outside of a client session (modern MCP and REST) get a temporary server session that ends with the request. A
temporary session is kept if its process now has state that later requests need: a task, or a call that waits for its
client's answers. These later requests name the process (`upstream.affinity`).

A process that was started with a user's key gets requests of this user with this key only, and ends when the key is
replaced or removed.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from msgspec import Raw

from fairlead_gateway.core.client_peer import ClientPeer
from fairlead_gateway.core.ports import Gauges, Pending, Upstream
from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.core.upstream_request import RelaySink, ResponseSink, UpstreamRequest
from fairlead_gateway.limits.shares import Shares, oldest_of_largest
from fairlead_gateway.sending import NO_OP_PENDING
from fairlead_gateway.upstream import affinity
from fairlead_gateway.upstream.process_tasks import ProcessTasks
from fairlead_gateway.upstream.server_session import SUBSCRIBE, UNSUBSCRIBE
from fairlead_gateway.upstream.settings import PerClientSettings
from fairlead_gateway.upstream.shared_stream import OTHER_PROCESS, is_about_task
from fairlead_mcp import jsonrpc, server_tasks, states
from fairlead_mcp.asyncio_tasks import TaskSet
from fairlead_mcp.errors import ConnectFailed, McpError, NotMcp, PoolFull, RpcError
from fairlead_mcp.idle import IdleTimes
from fairlead_mcp.messages import ResultMembers

DEFAULT_SETTINGS: Final = PerClientSettings()
FINISHED_SECONDS: Final = 10.0
"""Time for which a process without a client session is kept after a client has read the end of its last task: the
client may repeat the request if the response was lost."""
CLOSE_SECONDS: Final = 5.0
"""Time for requests in progress to complete when their session ends."""


class _Session:
    """Server session of one client. `client` is the client's session id, or None for a request outside of a session."""

    __slots__ = (
        "agent",
        "authorization",
        "awaits_answers",
        "busy",
        "client",
        "counted_for_tasks",
        "ended",
        "in_use",
        "persistent",
        "person",
        "process",
        "subscriptions",
        "tasks",
        "upstream",
    )

    def __init__(self, upstream: Upstream, client: bytes | None, agent: str) -> None:
        self.upstream = upstream
        self.client = client
        self.person = b""
        """Key of the user whose credential the process has; empty for none."""
        self.authorization = b""
        """Credential of the process, as the line of a request (`UpstreamRequest.authorization`)."""
        self.agent = agent
        """Agent that the session is counted for."""
        self.in_use = False
        """Whether the session has a request in progress or an open task, and so cannot be ended to make room."""
        self.busy = 0
        """Requests in progress."""
        self.persistent = client is not None
        """Whether the session outlives the request that opened it."""
        self.ended = False
        """Whether the session is retired, and closes after the requests in progress."""
        self.process: bytes | None = None
        """Name of the server process (`StreamClient.process`), if later requests have to reach the same one."""
        self.tasks: ProcessTasks | None = None
        """Open tasks of the process; None before the first."""
        self.awaits_answers = False
        """Whether the last call was answered with `input_required`, and continues with the client's answers."""
        self.subscriptions = 0
        """Resources that the client is subscribed to."""
        self.counted_for_tasks = False
        """Whether the session is counted in `PerClientUpstream._task_sessions`."""

    @property
    def has_tasks(self) -> bool:
        return self.tasks is not None and len(self.tasks) > 0


class PerClientUpstream(Upstream):
    """Upstream that opens a separate upstream for each client. `make` creates such an upstream. Its parameters are the
    client's capabilities in normalized form, and the user's credential as a header line (empty without
    `by_credential`).
    """

    def __init__(
        self,
        name: str,
        make: Callable[[bytes, bytes], Upstream],
        *,
        modern: bool,
        settings: PerClientSettings = DEFAULT_SETTINGS,
        counts: ShareCounts | None = None,
        by_credential: bool = False,
    ) -> None:
        """Create an upstream without sessions. `counts` counts refused sessions. With `by_credential`, all requests of
        a session have the same credential.
        """
        self._by_credential = by_credential
        self.name = name
        self._modern = modern
        self._make = make
        max_sessions, idle = settings.max_sessions, settings.idle
        self._max_sessions = max_sessions
        self._shares = Shares("server_sessions", max_sessions, settings.each or -(-max_sessions * 3 // 4), counts)
        self._idle: IdleTimes[_Session] = IdleTimes(idle, self._retire)
        self._finished_sessions: IdleTimes[_Session] = IdleTimes(min(idle, FINISHED_SECONDS), self._retire)
        """Persistent sessions without a client whose tasks have ended."""
        self._next_number = itertools.count(1).__next__
        self._sessions: OrderedDict[_Session, None] = OrderedDict()
        """Persistent sessions, the most recently used last."""
        self._sessions_by_client: dict[bytes, _Session] = {}
        """Sessions by client session id."""
        self._sessions_by_process: dict[bytes, _Session] = {}
        """Sessions by name of the process."""
        self._sessions_by_person: dict[bytes, set[_Session]] = {}
        """Sessions with the credential of a user, by user."""
        self._temporary_count = 0
        """Number of temporary sessions, which end with their request."""
        self._task_sessions = 0
        """Number of sessions without a client that have an open task, or a request in progress that may create one."""
        self._closing_tasks = TaskSet()
        self._closed = False

    @property
    def modern(self) -> bool:
        return self._modern

    @property
    def accepts_tasks(self) -> bool:
        """Whether another task may be created. A task occupies a process until the task ends; half of the processes are
        reserved for calls.
        """
        return self._task_sessions < max(1, self._max_sessions // 2)

    def next_id(self) -> bytes:
        return b"%d" % self._next_number()

    @property
    def sessions(self) -> int:
        return len(self._sessions) + self._temporary_count

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> Pending:
        # the request gets an id from the client's own upstream, which also numbers its handshake
        client = request.client
        client_session = request.session if client is None else client.session
        if client is not None and client.is_transient:
            client_session = None
        try:
            session = self._enter_session(
                request, client_session, b"{}" if client is None else client.features, sink.agent
            )
        except McpError as error:
            sink.take_error(error)
            return NO_OP_PENDING
        if client_session is not None and client is None and not self._modern:
            # a legacy server needs the same ClientPeer for all requests of a session
            client = ClientPeer(client_session, b"{}")
        call = _Call(self, session, sink, request if self._modern else None)
        call.set_pending(session.upstream.send(request.in_session(session.upstream.next_id(), client), call))
        return call

    def end_session(self, session: bytes) -> None:
        server_session = self._sessions_by_client.get(session)
        if server_session is not None:
            self._retire(server_session)

    def has_sessions_of(self, person: bytes) -> bool:
        return person in self._sessions_by_person or any(
            session.upstream.has_sessions_of(person) for session in self._sessions
        )

    def end_sessions_of(self, person: bytes) -> None:
        for session in self._sessions:
            session.upstream.end_sessions_of(person)
        for session in [*self._sessions_by_person.get(person, ())]:
            if not session.persistent:  # the session ends with the request
                session.persistent = True
                self._temporary_count -= 1
            self._retire(session)

    def gauges(self) -> Gauges:
        busy = sum(session.busy > 0 or session.has_tasks for session in self._sessions) + self._temporary_count
        any_session = next(iter(list(self._sessions)), None)  # all sessions share the same pods
        pod_gauges = Gauges() if any_session is None else any_session.upstream.gauges()
        return Gauges(busy, self.sessions - busy, 0, pod_gauges.pods_serving, pod_gauges.pods_left)

    async def aclose(self, grace: float, *, replaced: bool = False) -> None:
        self._closed = True
        for session in list(self._sessions):
            self._retire(session)
        self._idle.close()
        self._finished_sessions.close()
        await asyncio.gather(*self._closing_tasks, return_exceptions=True)

    # Interface for calls

    def end_request(self, session: _Session) -> None:
        """Record the end of a request, and retire the session or mark it idle."""
        session.busy -= 1
        if session.busy:
            return
        if session.ended:
            self._mark_unused(session)
            return
        if not session.persistent:
            self._temporary_count -= 1
            self._retire(session)
            return
        if not session.has_tasks:
            self._mark_unused(session)
            if session.counted_for_tasks:
                self._uncount_tasks(session)
        if session.client is None and not session.has_tasks and not session.awaits_answers:
            self._finished_sessions.mark_idle(session)
        elif not session.subscriptions:  # a session with subscriptions receives updates without any request
            self._idle.mark_idle(session)

    def record_answer(self, session: _Session, request: UpstreamRequest, result: Raw) -> None:
        """Record the result of a modern server, and keep the session if its process now has state."""
        if session.ended:
            return
        if is_about_task(request):
            self._update_task(session, request, result)
            return
        process = None
        session.awaits_answers = False
        try:
            if request.tasks and server_tasks.creates_task(result):
                task = server_tasks.read(result)
                task_id, process = affinity.split(task.task_id)
                if process is not None:
                    self._open_tasks_of(session, process).open(task_id, task)
            elif b'"requestState"' in bytes(result):
                state = states.state_in(jsonrpc.decode_object(result))
                process = None if state is None else affinity.split(state)[1]
                session.awaits_answers = process is not None
        except (NotMcp, *jsonrpc.UNREADABLE):
            return  # the caller parses the result too, and reports the error
        if process is not None:
            self._make_persistent(session, process)

    def record_refusal(self, session: _Session, request: UpstreamRequest, error: Exception) -> None:
        """Record an error of a modern server: a task or state that the server rejects has ended."""
        if not isinstance(error, RpcError):
            return
        if not is_about_task(request):
            session.awaits_answers = False
        elif session.tasks is not None:
            session.tasks.close(_task_id(request))

    # Internals

    def _update_task(self, session: _Session, request: UpstreamRequest, result: Raw) -> None:
        if session.tasks is None:
            return
        task_id = _task_id(request)
        if request.method == server_tasks.CANCEL:
            session.tasks.close(task_id)
        elif request.method == server_tasks.GET:
            try:
                session.tasks.update(task_id, server_tasks.read(result))
            except NotMcp:
                return

    def _open_tasks_of(self, session: _Session, process: bytes) -> ProcessTasks:
        """Open tasks of the session's process. Tasks of an earlier process ended with it."""
        if session.tasks is None:
            session.tasks = ProcessTasks(lambda: self._expire_tasks(session))
        elif session.process != process:
            session.tasks.clear()
        return session.tasks

    def _make_persistent(self, session: _Session, process: bytes) -> None:
        """Keep the session after its request, and index it by the name of its process."""
        if session.ended:
            return
        if not session.persistent:
            session.persistent = True
            self._temporary_count -= 1
            self._sessions[session] = None
        if session.process is not None and session.process != process:
            del self._sessions_by_process[session.process]
        session.process = process
        self._sessions_by_process[process] = session

    def _expire_tasks(self, session: _Session) -> None:
        """Handle the expiry of all tasks of the session."""
        if not session.busy:
            self._mark_unused(session)
        if session.client is None and not session.awaits_answers:
            self._retire(session)

    def _enter_session(
        self, request: UpstreamRequest, client_session: bytes | None, features: bytes, agent: str
    ) -> _Session:
        """The session for a request, opened if needed and counted as in use.

        Raises PoolFull, ConnectFailed after `aclose`, and RpcError for a task of another process.
        """
        session = self._open_session(request, client_session)
        if session is None:
            if self._modern and is_about_task(request):
                raise RpcError(jsonrpc.INVALID_PARAMS, OTHER_PROCESS)
            self._check_share(agent)
            self._make_room()
            line = request.authorization if self._by_credential else b""
            session = _Session(self._make(features, line), client_session, agent)
            if self._by_credential:
                self._assign(session, request)
            if client_session is None:
                self._temporary_count += 1
            else:
                self._sessions_by_client[client_session] = session
                self._sessions[session] = None
        elif not session.in_use:
            self._check_share(session.agent)
        if not session.in_use:
            session.in_use = True
            self._shares.take(session.agent)
        if session.persistent:
            self._sessions.move_to_end(session)
        if request.tasks and session.client is None and not session.counted_for_tasks:
            session.counted_for_tasks = True
            self._task_sessions += 1
        if request.method == SUBSCRIBE:
            session.subscriptions += 1
        elif request.method == UNSUBSCRIBE:
            session.subscriptions = max(session.subscriptions - 1, 0)
        self._idle.mark_used(session)
        self._finished_sessions.mark_used(session)
        session.busy += 1
        return session

    def _open_session(self, request: UpstreamRequest, client_session: bytes | None) -> _Session | None:
        """The open session that a request belongs to; None if there is none. A session of the client with another
        credential is ended. Raises RpcError if the request names a process of another user.
        """
        session = None if request.affinity_tag is None else self._sessions_by_process.get(request.affinity_tag)
        if session is not None:
            if not self._may_use(session, request):
                raise RpcError(jsonrpc.INVALID_PARAMS, OTHER_PROCESS)
            return session
        session = None if client_session is None else self._sessions_by_client.get(client_session)
        if session is not None and not self._may_use(session, request):
            self._retire(session)
            return None
        return session

    def _assign(self, session: _Session, request: UpstreamRequest) -> None:
        """Assign a session to the user of a request."""
        session.person = request.person
        session.authorization = request.authorization
        if request.person:
            self._sessions_by_person.setdefault(request.person, set()).add(session)

    def _may_use(self, session: _Session, request: UpstreamRequest) -> bool:
        """Whether a session's process has the credential of a request."""
        if not self._by_credential:
            return True
        return session.person == request.person and session.authorization == request.authorization

    def _make_room(self) -> None:
        if self._closed:
            raise ConnectFailed(f"the gateway closed its sessions with the server {self.name}", reason="Closed")
        if self.sessions < self._max_sessions:
            return
        idle_sessions = oldest_of_largest(((each, each.agent, 1) for each in self._sessions if not each.in_use), 1)
        if not idle_sessions:
            raise PoolFull(
                f"{self._max_sessions} clients have a session with the server {self.name}, and all of them are "
                "busy: retry later"
            )
        self._retire(idle_sessions[0])

    def _check_share(self, agent: str) -> None:
        """Raise PoolFull if the agent may not use another session."""
        exceeded = self._shares.bound(agent)
        if exceeded is None:
            return
        if exceeded.bound == "agent":
            raise PoolFull(
                f"{exceeded.limit} of your sessions with the server {self.name} are in use, the limit for one agent"
            )
        raise PoolFull(
            f"{exceeded.limit} clients have a session with the server {self.name}, and all of them are busy: "
            "retry later"
        )

    def _mark_unused(self, session: _Session) -> None:
        if session.in_use:
            session.in_use = False
            self._shares.give_back(session.agent)

    def _retire(self, session: _Session) -> None:
        session.ended = True
        self._idle.mark_used(session)
        self._finished_sessions.mark_used(session)
        self._sessions.pop(session, None)
        sessions = self._sessions_by_person.get(session.person)
        if sessions is not None:
            sessions.discard(session)
            if not sessions:
                del self._sessions_by_person[session.person]
        if session.client is not None:
            self._sessions_by_client.pop(session.client, None)
        if session.process is not None:
            self._sessions_by_process.pop(session.process, None)
        if session.tasks is not None:
            session.tasks.clear()
            session.tasks = None  # breaks a reference cycle
        if not session.busy:
            self._mark_unused(session)
        if session.counted_for_tasks:
            self._uncount_tasks(session)
        grace = CLOSE_SECONDS if session.busy else 0.0
        self._closing_tasks.start(session.upstream.aclose(grace), f"end session {self.name}")

    def _uncount_tasks(self, session: _Session) -> None:
        session.counted_for_tasks = False
        self._task_sessions -= 1


def _task_id(request: UpstreamRequest) -> str:
    """The `taskId` in the params of a request; empty if it is missing or not a string."""
    try:
        return jsonrpc.decode_text(jsonrpc.decode_object(request.params)["taskId"])
    except (KeyError, *jsonrpc.UNREADABLE):
        return ""


class _Call(RelaySink):
    """A request in progress in one session. `request` is the original request to a modern server, None for legacy."""

    def __init__(
        self, upstream: PerClientUpstream, session: _Session, sink: ResponseSink, request: UpstreamRequest | None
    ) -> None:
        super().__init__(sink)
        self._upstream = upstream
        self._session = session
        self._request = request
        self._has_ended = False
        self._pending: Pending = NO_OP_PENDING

    def set_pending(self, pending: Pending) -> None:
        """Set the handle that cancels the request, unless the request was answered already."""
        if not self._has_ended:
            self._pending = pending

    def take_result(self, result: Raw, members: ResultMembers | None = None) -> None:
        if self._request is not None and not self._has_ended:
            self._upstream.record_answer(self._session, self._request, result)
        self._end()
        self.sink.take_result(result, members)

    def take_error(self, error: Exception) -> None:
        if self._request is not None and not self._has_ended:
            self._upstream.record_refusal(self._session, self._request, error)
        self._end()
        self.sink.take_error(error)

    def cancel(self) -> None:
        if not self._has_ended:
            self._pending.cancel()
            self._end()

    def _end(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._pending = NO_OP_PENDING  # breaks a reference cycle, which only the garbage collector would free
            self._upstream.end_request(self._session)
