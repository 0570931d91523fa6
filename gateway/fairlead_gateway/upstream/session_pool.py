"""Sessions with one legacy server over HTTP: a shared session at each pod, and a session for each client with
capabilities.

At a server with access tokens per call, only the clients of one user share a session, because servers bind sessions to
users. The session of a user ends when it is idle.

A client with capabilities (sampling, elicitation, roots) needs a session that declares them, so that the server can
send requests to the client during a call. The session stays open for a while after the client's requests: many servers
send requests on the session's GET stream, where only the session identifies the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec import Raw

from fairlead_gateway.core.client_peer import ClientPeer
from fairlead_gateway.core.outbound import CallCredentials
from fairlead_gateway.upstream.background_work import ANSWER_BYTES, POST_SECONDS, BackgroundTasks
from fairlead_gateway.upstream.get_stream import GetStream
from fairlead_gateway.upstream.log_levels import LogLevels
from fairlead_gateway.upstream.pod_pools import PodPools, Pools, ServerPod
from fairlead_gateway.upstream.server_session import (
    CompleteElicitation,
    ServerSession,
    SessionKey,
    pod_of,
    shared_key,
)
from fairlead_gateway.upstream.session_authorization import SessionAuthorization
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.errors import ConnectFailed, HandshakeRefused, PoolFull, RpcError, Timeout
from fairlead_mcp.http.answer import Answer
from fairlead_mcp.http.dial import Address
from fairlead_mcp.http.target import with_body
from fairlead_mcp.idle import IdleTimes
from fairlead_mcp.waiting import wait_until_set

OPEN_SECONDS: Final = 10.0
"""Timeout for opening a session."""
END_SECONDS: Final = 1.0
"""Timeout for the DELETE of a session."""
MAX_SESSIONS: Final = 256
"""Limit on open sessions."""
IDLE_SECONDS: Final = 60.0
"""Time without requests after which a client's own session is ended."""
STREAM_SECONDS: Final = 2.0
"""Time for which the first request waits for the session's GET stream."""


class _Opening(NamedTuple):
    """A session that is being opened. `person` is the key of its user; empty for a session of all users."""

    task: asyncio.Task[ServerSession]
    person: bytes


class RequestForm(NamedTuple):
    """How requests to a server are built, and how its answers are parsed."""

    head: bytes
    """Prepared head of requests."""
    client: eras.Client
    next_id: Callable[[], bytes]
    read: Callable[[Answer, bytes], Raw]
    """Returns the result in the answer to a request id. Raises McpError."""
    credentials: CallCredentials | None
    """Access tokens per request; None if `head` contains the credential."""
    complete_elicitation: CompleteElicitation
    """Forwards the notification that an elicitation is complete to the client, if the server sends it while no call of
    the client is running.
    """


class ServerSessions:
    """Legacy sessions with one server: shared sessions, and clients' own. `idle` is in seconds."""

    def __init__(
        self,
        form: RequestForm,
        pools: PodPools,
        background: BackgroundTasks,
        idle: float = IDLE_SECONDS,
        max_sessions: int = MAX_SESSIONS,
    ) -> None:
        self.max_sessions = max_sessions
        """Maximum number of open sessions. At the limit, the session that has been idle for longest is ended."""
        self._credentials = form.credentials
        self._forward_completion = form.complete_elicitation
        self._head = form.head
        self._client = form.client
        self._pools = pools
        self._next_id = form.next_id
        self._read = form.read
        self._background = background
        self._clock = pools.pools_of_any_pod.calls.clock
        self._openings: dict[SessionKey, _Opening] = {}
        self.open: dict[SessionKey, ServerSession] = {}
        self.idle: IdleTimes[ServerSession] = IdleTimes(idle, self._drop)
        """Ends clients' own sessions after `idle` seconds."""

    def pools(self, session: ServerSession) -> Pools:
        return self._pools.pools_at(session.pod)

    def shared_at(self, pod: ServerPod, person: bytes = b"") -> ServerSession | None:
        """The shared session for calls to a pod. A server without session ids has one shared session for all pods."""
        session = self.open.get(shared_key(person, None))
        return self.open.get(shared_key(person, pod.address)) if session is None else session

    async def get_or_open(
        self,
        client: ClientPeer | None,
        deadline: float,
        pod: ServerPod | None = None,
        person: bytes = b"",
        authorization: bytes = b"",
    ) -> ServerSession:
        """The session of a client, or the shared session of a user's clients at a pod. Opened on first use.

        `authorization` is the header line of the handshake. If a waiting request is cancelled, the opening continues,
        because other requests may wait for it. Raises McpError.
        """
        if pod is not None:
            key, session = shared_key(person, pod.address), self.shared_at(pod, person)
        else:
            key = client if client is not None else shared_key(person, None)
            session = self.open.get(key)
        if session is not None:
            return session
        opening = self._openings.get(key)
        if opening is None:
            if person:
                self._make_room_for_person()
            task = asyncio.get_running_loop().create_task(
                self._open(client, pod, person, authorization), name=f"session {self._pools.host}"
            )
            opening = self._openings[key] = _Opening(task, person)
            task.add_done_callback(lambda task: self._session_opened(key, task))
        done, _ = await asyncio.wait([opening.task], timeout=max(deadline - self._clock(), 0))
        if not done:
            raise Timeout(f"the session with {self._pools.host} was not opened in time", sent=False)
        if opening.task.cancelled() and pod is not None and pod.health.ejected:
            raise ConnectFailed(f"pod {pod.address[0]} of {self._pools.host} does not answer")
        if opening.task.cancelled() and person:
            raise ConnectFailed(f"the caller's sign-in at {self._pools.host} has ended", reason="Closed")
        return opening.task.result()

    def forget_session(self, session: ServerSession) -> None:
        """Drop a session that the server has lost."""
        if self.open.get(session.key) is session:
            del self.open[session.key]
            self._close(session)

    def assign_to_pods(self) -> None:
        """Assign the shared sessions that have ids to their pods, because calls are now spread over several pods."""
        for session in [session for session in self.open.values() if session.client is None]:
            if pod_of(session.key) is None and session.has_id and session.pod is not None:
                del self.open[session.key]
                session.key = shared_key(session.person, session.pod)
                self.open[session.key] = session

    def stop_opening(self, pod: ServerPod) -> None:
        """Cancel the opening of a pod's shared sessions. The requests that wait for it fail with ConnectFailed."""
        for key, opening in [*self._openings.items()]:
            if pod_of(key) == pod.address:
                opening.task.cancel()

    def has_any_of(self, person: bytes) -> bool:
        """Whether sessions of a user are open or being opened."""
        owners: list[ServerSession | _Opening] = [*self.open.values(), *self._openings.values()]
        return any(owner.person == person for owner in owners)

    def end_all_of(self, person: bytes) -> None:
        """End all sessions of a user whose account at the server has ended or was replaced."""
        for opening in [*self._openings.values()]:
            if opening.person == person:
                opening.task.cancel()
        for session in [*self.open.values()]:
            if session.person == person:
                session.authorization.freeze()
                self._drop(session)

    def forget(self, address: Address) -> None:
        """Drop the shared sessions of a removed pod."""
        for session in [session for session in self.open.values() if pod_of(session.key) == address]:
            self.forget_session(session)

    def level_to_set(self, session: ServerSession, client: bytes | None, level: str | None) -> str | None:
        """The level to set by `logging/setLevel` before a request that asks for `level`; None if no change is needed.

        The returned level is recorded as set.
        """
        if level is None or session.levels is None:
            return None
        return session.levels.level_to_set(client, level, self._clock())

    async def set_level(self, session: ServerSession, level: str | None) -> None:
        """Wait for `logging/setLevel` requests in progress, then send one unless `level` is None. The answer is
        ignored.
        """
        async with session.level_lock:
            if level is not None:
                body = jsonrpc.request(self._next_id(), "logging/setLevel", jsonrpc.encode({"level": level}))
                control = self.pools(session).control
                await self._background.post_and_wait(control, session.head, body, session.authorization, POST_SECONDS)

    async def aclose(self) -> None:
        """End all sessions, within END_SECONDS."""
        sessions = [*self.open.values()]
        self.open.clear()
        self.idle.close()
        for session in sessions:
            session.close()
        tasks = [each.task for each in self._openings.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(self._end(session) for session in sessions))

    # Internals

    async def _end(self, session: ServerSession) -> None:
        """Delete the session at the server (MCP 2025-11-25, Transports, "Session Management")."""
        if session.has_id:
            head, control = session.head.replace(b"POST ", b"DELETE ", 1), self.pools(session).control
            await self._background.post_and_wait(control, head, b"", session.authorization, END_SECONDS)

    def _drop(self, session: ServerSession) -> None:
        if self.open.get(session.key) is session:
            del self.open[session.key]
            self._close(session)
            self._background.run(self._end(session), "end session")

    def _close(self, session: ServerSession) -> None:
        self.idle.mark_used(session)
        subscriber, session.subscriber = session.subscriber, None
        session.close()
        if subscriber is not None:
            subscriber.end_subscription()

    def _session_opened(self, key: SessionKey, task: asyncio.Task[ServerSession]) -> None:
        self._openings.pop(key, None)
        if not task.cancelled() and task.exception() is None:
            session = task.result()
            self.open[session.key] = session
            if session.has_owner:
                self.idle.mark_idle(session)  # the request that opened it may have been cancelled
            if len(self.open) > self.max_sessions:
                self._make_room(session)

    def _make_room(self, newest_session: ServerSession | None) -> bool:
        """Drop the session of a client or user that has been idle for longest. Returns False if none is idle.

        A session with subscriptions is dropped only if no other is idle, or if such sessions exceed half of the limit:
        they stay open when their clients disappear. The subscriber of a dropped session is notified.
        """
        unused_sessions = [
            session
            for session in self.open.values()
            if session.has_owner and session is not newest_session and not (session.active_sinks or session.requests)
        ]
        subscribed_sessions = [session for session in unused_sessions if session.subscriber is not None]
        idle_session = self.idle.longest_idle()
        if idle_session is None or idle_session is newest_session:
            idle_session = next((session for session in unused_sessions if session.subscriber is None), None)
        if subscribed_sessions and (idle_session is None or 2 * len(subscribed_sessions) > self.max_sessions):
            idle_session = subscribed_sessions[0]
        if idle_session is not None:
            self._drop(idle_session)
        return idle_session is not None

    def _make_room_for_person(self) -> None:
        """Drop an idle session if the limit is reached. Raises PoolFull if none is idle."""
        if len(self.open) + len(self._openings) >= self.max_sessions and not self._make_room(None):
            raise PoolFull(
                f"{self.max_sessions} sessions of other users with {self._pools.host} are in use "
                "(FAIRLEAD_UPSTREAM_SESSIONS): retry later"
            )

    async def _open(
        self, client: ClientPeer | None, pod: ServerPod | None, person: bytes, authorization: bytes
    ) -> ServerSession:
        deadline = self._clock() + OPEN_SECONDS
        target_pod = pod if pod is not None or not self._pools.spreads_calls else self._pools.pick()
        calls = self._pools.pools_of_any_pod.calls if target_pod is None else target_pod.pools.calls
        ident = self._next_id()
        capabilities = b"{}" if client is None else client.features
        body = jsonrpc.request(ident, "initialize", eras.initialize_params(self._client, capabilities))
        head = self._head + authorization
        answer = await calls.exchange(with_body(head, body), deadline=deadline, max_bytes=ANSWER_BYTES)
        try:
            result = self._read(answer, ident)
        except RpcError as error:
            raise HandshakeRefused.of(error) from error
        negotiated = eras.read_initialize(result)
        session = ServerSession(
            self._head,
            negotiated.protocol_version,
            answer.headers.get(b"mcp-session-id"),
            client,
            person,
            SessionAuthorization(self._credentials, person, authorization),
        )
        if client is not None or session.has_id:
            session.pod = self._pools.pod_address(answer.connection.peer) if target_pod is None else target_pod.address
        if client is None and session.has_id and self._pools.spreads_calls:
            session.key = shared_key(person, session.pod)
        if negotiated.offers("logging"):
            session.levels = LogLevels(shared=client is None)
        initialized = with_body(session.head + authorization, jsonrpc.notification("notifications/initialized"))
        # `pools_of_any_pod` may have connections to several pods by now
        is_pinned = session.pod is not None and (client is not None or self._pools.spreads_calls)
        pool = self.pools(session).calls if is_pinned else calls
        await pool.exchange(initialized, deadline=deadline, max_bytes=ANSWER_BYTES)
        if client is not None:
            stream = GetStream(self.pools(session).control, session, self._background, self._forward_completion)
            session.stream = asyncio.get_running_loop().create_task(stream.run(), name=f"listen {self._pools.host}")
            await wait_until_set(stream.settled, STREAM_SECONDS)
        return session
