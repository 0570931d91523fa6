"""A server with `session: PerClient`: every client session has a session with it, or a process, of its own.

What one client does in its session no other sees; it ends with the client's session, after a while without a call, or
when others need the room. A request that belongs to no session (2026-07-28 has none, nor has REST) is alone in one that
ends with it, unless it leaves something behind that only its process knows: a task, or the state of a call that asks
its client. Requests that go on with those name the process (`upstream.affinity`).
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
from fairlead_gateway.sending import ANSWERED
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
TOLD_SECONDS: Final = 10.0
"""How long a process without a client's session is there after the end of its tasks was told: the answer may have been
lost, and is asked for again."""
CLOSE_SECONDS: Final = 5.0
"""Time that requests in progress get when their session ends."""


class _Session:
    """One client's upstream. `client` is its session id; None for one that a request without a session began."""

    __slots__ = (
        "agent",
        "awaited",
        "busy",
        "client",
        "counted",
        "ended",
        "in_use",
        "process",
        "stays",
        "tasks",
        "upstream",
        "watched",
    )

    def __init__(self, upstream: Upstream, client: bytes | None, agent: str) -> None:
        self.upstream = upstream
        self.client = client
        self.agent = agent
        """Agent that it is for."""
        self.in_use = False
        """Whether it counts among the sessions of its agent that cannot make room: something is in progress in it, or
        it has a task."""
        self.busy = 0
        self.stays = client is not None
        """Whether it outlives the request that began it."""
        self.ended = False
        """Whether it is to be closed when nothing is in progress in it."""
        self.process: bytes | None = None
        """Name of its process (`StreamClient.process`), where requests name it."""
        self.tasks: ProcessTasks | None = None
        """Tasks that its process has open; None before the first."""
        self.awaited = False
        """Whether its last call asked its client by its result, and goes on with the answers."""
        self.watched = 0
        """Resources that its client is subscribed to."""
        self.counted = False
        """Whether it counts among those that have a task open, or may get one."""

    @property
    def has_tasks(self) -> bool:
        return self.tasks is not None and len(self.tasks) > 0


class PerClientUpstream(Upstream):
    """`make` makes an upstream of its own for one client, by its normalized capabilities."""

    def __init__(
        self,
        name: str,
        make: Callable[[bytes], Upstream],
        *,
        modern: bool,
        settings: PerClientSettings = DEFAULT_SETTINGS,
        counts: ShareCounts | None = None,
    ) -> None:
        """`counts` has the sessions that were refused."""
        self.name = name
        self._modern = modern
        self._make = make
        most, idle = settings.most, settings.idle
        self._most = most
        self._in_use = Shares("server_sessions", most, settings.each or -(-most * 3 // 4), counts)
        self._idle: IdleTimes[_Session] = IdleTimes(idle, self._retire)
        self._told: IdleTimes[_Session] = IdleTimes(min(idle, TOLD_SECONDS), self._retire)
        """Sessions of no client that nothing is expected of any more."""
        self._count = itertools.count(1).__next__
        self._sessions: OrderedDict[_Session, None] = OrderedDict()
        """Those that outlive their requests, the one used last at the end."""
        self._clients: dict[bytes, _Session] = {}
        """By client session."""
        self._processes: dict[bytes, _Session] = {}
        """By name of the process."""
        self._alone = 0
        """Sessions of requests that have none."""
        self._with_tasks = 0
        """Sessions of no client that have a task open, or may get one from the request in progress."""
        self._closing = TaskSet()
        self._closed = False

    @property
    def modern(self) -> bool:
        return self._modern

    @property
    def keeps_tasks(self) -> bool:
        """A task takes a process until its end: no more than half of them, so that calls have the others."""
        return self._with_tasks < max(1, self._most // 2)

    def next_id(self) -> bytes:
        return b"%d" % self._count()

    @property
    def sessions(self) -> int:
        return len(self._sessions) + self._alone

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> Pending:
        """Under an id of the client's own upstream, for that counts those of its handshakes too."""
        client = request.client
        named = request.session if client is None else client.session
        if client is not None and client.passing:
            named = None
        try:
            session = self._entered(request, named, b"{}" if client is None else client.features, sink.agent)
        except McpError as error:
            sink.take_error(error)
            return ANSWERED
        if named is not None and client is None and not self._modern:
            # one session with the server for all requests of the client: they have to look alike there
            client = ClientPeer(named, b"{}")
        call = _Call(self, session, sink, request if self._modern else None)
        call.began(session.upstream.send(request.in_session(session.upstream.next_id(), client), call))
        return call

    def end_session(self, session: bytes) -> None:
        client = self._clients.get(session)
        if client is not None:
            self._retire(client)

    def gauges(self) -> Gauges:
        busy = sum(session.busy > 0 or session.has_tasks for session in self._sessions) + self._alone
        some = next(iter(list(self._sessions)), None)  # all see the same pods
        own = Gauges() if some is None else some.upstream.gauges()
        return Gauges(busy, self.sessions - busy, 0, own.pods_serving, own.pods_left)

    async def aclose(self, grace: float, *, replaced: bool = False) -> None:
        self._closed = True
        for session in list(self._sessions):
            self._retire(session)
        self._idle.close()
        self._told.close()
        await asyncio.gather(*self._closing, return_exceptions=True)

    # For its calls

    def left(self, session: _Session) -> None:
        """A request in a session is over."""
        session.busy -= 1
        if session.busy:
            return
        if session.ended:
            self._out_of_use(session)
            return
        if not session.stays:
            self._alone -= 1
            self._retire(session)
            return
        if not session.has_tasks:
            self._out_of_use(session)
            if session.counted:
                self._discount(session)
        if session.client is None and not session.has_tasks and not session.awaited:
            self._told.mark_idle(session)
        elif not session.watched:  # updates come in it, without a request
            self._idle.mark_idle(session)

    def answered(self, session: _Session, request: UpstreamRequest, result: Raw) -> None:
        """A modern server has answered: keep a session that has something which only its process knows."""
        if session.ended:
            return
        if is_about_task(request):
            self._told_of_task(session, request, result)
            return
        process = None
        session.awaited = False
        try:
            if request.tasks and server_tasks.is_first_answer(result):
                task = server_tasks.read(result)
                task_id, process = affinity.split(task.task_id)
                if process is not None:
                    self._tasks_of(session, process).open(task_id, task)
            elif b'"requestState"' in bytes(result):
                state = states.state_in(jsonrpc.decode_object(result))
                process = None if state is None else affinity.split(state)[1]
                session.awaited = process is not None
        except (NotMcp, *jsonrpc.UNREADABLE):
            return  # the caller reads the same and says so
        if process is not None:
            self._stay(session, process)

    def refused(self, session: _Session, request: UpstreamRequest, error: Exception) -> None:
        """A modern server has refused a request: a task, or state, that it does not know is over."""
        if not isinstance(error, RpcError):
            return
        if not is_about_task(request):
            session.awaited = False
        elif session.tasks is not None:
            session.tasks.close(_task_id(request))

    # Inside

    def _told_of_task(self, session: _Session, request: UpstreamRequest, result: Raw) -> None:
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

    def _tasks_of(self, session: _Session, process: bytes) -> ProcessTasks:
        """Open tasks of a session's process; those of one before it ended with that."""
        if session.tasks is None:
            session.tasks = ProcessTasks(lambda: self._expired(session))
        elif session.process != process:
            session.tasks.clear()
        return session.tasks

    def _stay(self, session: _Session, process: bytes) -> None:
        """Have a session outlive its request, and be found by the name of its process."""
        if session.ended:
            return
        if not session.stays:
            session.stays = True
            self._alone -= 1
            self._sessions[session] = None
        if session.process is not None and session.process != process:
            del self._processes[session.process]
        session.process = process
        self._processes[process] = session

    def _expired(self, session: _Session) -> None:
        """The time of its tasks is over."""
        if not session.busy:
            self._out_of_use(session)
        if session.client is None and not session.awaited:
            self._retire(session)

    def _entered(self, request: UpstreamRequest, named: bytes | None, features: bytes, agent: str) -> _Session:
        """Raises PoolFull, ConnectFailed once it is closed, and RpcError for a task of a process that is not here."""
        session = None if request.instance is None else self._processes.get(request.instance)
        if session is None and named is not None:
            session = self._clients.get(named)
        if session is None:
            if self._modern and is_about_task(request):
                raise RpcError(jsonrpc.INVALID_PARAMS, OTHER_PROCESS)
            self._check_share(agent)
            self._make_room()
            session = _Session(self._make(features), named, agent)
            if named is None:
                self._alone += 1
            else:
                self._clients[named] = session
                self._sessions[session] = None
        elif not session.in_use:
            self._check_share(session.agent)
        if not session.in_use:
            session.in_use = True
            self._in_use.take(session.agent)
        if session.stays:
            self._sessions.move_to_end(session)
        if request.tasks and session.client is None and not session.counted:
            session.counted = True
            self._with_tasks += 1
        if request.method == SUBSCRIBE:
            session.watched += 1
        elif request.method == UNSUBSCRIBE:
            session.watched = max(session.watched - 1, 0)
        self._idle.mark_used(session)
        self._told.mark_used(session)
        session.busy += 1
        return session

    def _make_room(self) -> None:
        if self._closed:
            raise ConnectFailed(f"{self.name} is not called in this way any more", reason="Closed")
        if self.sessions < self._most:
            return
        idle = oldest_of_largest(((each, each.agent, 1) for each in self._sessions if not each.in_use), 1)
        if not idle:
            raise PoolFull(f"{self._most} clients have a session with {self.name}, and all of them are busy")
        self._retire(idle[0])

    def _check_share(self, agent: str) -> None:
        """Raises PoolFull where an agent gets no further session to use."""
        reached = self._in_use.bound(agent)
        if reached is None:
            return
        if reached.bound == "agent":
            raise PoolFull(f"{reached.most} of your sessions with {self.name} are in use, the most of one agent")
        raise PoolFull(f"{reached.most} clients have a session with {self.name}, and all of them are busy")

    def _out_of_use(self, session: _Session) -> None:
        if session.in_use:
            session.in_use = False
            self._in_use.give_back(session.agent)

    def _retire(self, session: _Session) -> None:
        session.ended = True
        self._idle.mark_used(session)
        self._told.mark_used(session)
        self._sessions.pop(session, None)
        if session.client is not None:
            self._clients.pop(session.client, None)
        if session.process is not None:
            self._processes.pop(session.process, None)
        if session.tasks is not None:
            session.tasks.clear()
            session.tasks = None  # it knows us
        if not session.busy:
            self._out_of_use(session)
        if session.counted:
            self._discount(session)
        grace = CLOSE_SECONDS if session.busy else 0.0
        self._closing.start(session.upstream.aclose(grace), f"end session {self.name}")

    def _discount(self, session: _Session) -> None:
        session.counted = False
        self._with_tasks -= 1


def _task_id(request: UpstreamRequest) -> str:
    """The server's own id of the task that a request is about; empty where it has none that can be read."""
    try:
        return jsonrpc.decode_text(jsonrpc.decode_object(request.params)["taskId"])
    except (KeyError, *jsonrpc.UNREADABLE):
        return ""


class _Call(RelaySink):
    """A request in progress in one session. `request`: as it was, of a modern server, whose answer may need its process
    again.
    """

    def __init__(
        self, upstream: PerClientUpstream, session: _Session, sink: ResponseSink, request: UpstreamRequest | None
    ) -> None:
        super().__init__(sink)
        self._upstream = upstream
        self._session = session
        self._request = request
        self._over = False
        self._pending: Pending = ANSWERED

    def began(self, pending: Pending) -> None:
        """Take what cancels the request, unless that is answered already."""
        if not self._over:
            self._pending = pending

    def take_result(self, result: Raw, members: ResultMembers | None = None) -> None:
        if self._request is not None and not self._over:
            self._upstream.answered(self._session, self._request, result)
        self._end()
        self.sink.take_result(result, members)

    def take_error(self, error: Exception) -> None:
        if self._request is not None and not self._over:
            self._upstream.refused(self._session, self._request, error)
        self._end()
        self.sink.take_error(error)

    def cancel(self) -> None:
        if not self._over:
            self._pending.cancel()
            self._end()

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self._pending = ANSWERED  # it knows us: a cycle would keep the whole call for the garbage collector
            self._upstream.left(self._session)
