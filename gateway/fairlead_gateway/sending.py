"""Adapters for `core.ports.Upstream`: await a request as a coroutine, or run a coroutine as a request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Raw

from fairlead_gateway.core.client_peer import ClientPeer
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.outbound import CallCredential
from fairlead_gateway.core.ports import Gauges, Pending, Upstream
from fairlead_gateway.core.server_binding import ServerBinding
from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_mcp.errors import ConnectionLost, McpError
from fairlead_mcp.messages import Message, ResultMembers
from fairlead_mcp.oauth.challenge import challenge_of


async def result_of(
    upstream: Upstream,
    request: UpstreamRequest,
    notify: Callable[[Message], None] | None = None,
    end_subscription: Callable[[], None] | None = None,
) -> Raw:
    """Send a request and await its raw result. Raises McpError. Cancelling the coroutine cancels the request.

    `notify` and `end_subscription` are passed to `FutureSink`, which documents them.
    """
    sink = FutureSink(notify, end_subscription)
    pending = upstream.send(request, sink)
    try:
        return await sink.future
    except asyncio.CancelledError:
        pending.cancel()
        raise


async def result_as(
    binding: ServerBinding,
    identity: Identity,
    request: UpstreamRequest,
    notify: Callable[[Message], None] | None = None,
    end_subscription: Callable[[], None] | None = None,
) -> Raw:
    """Send a request on behalf of a caller, like `result_of`, with the caller's access token if the server needs one.

    A token that the server refuses is replaced, at most once for each reason: an invalid token, or missing scopes.
    """
    upstream, credentials = binding.upstream, binding.credentials
    if credentials is None:
        return await result_of(upstream, request, notify, end_subscription)
    credential = credentials.find_cached(identity) or await credentials.acquire(identity, request.deadline)
    handled_reasons: tuple[str, ...] = ()
    while True:
        request.authorize(credential)
        try:
            return await result_of(upstream, request, notify, end_subscription)
        except McpError as error:
            challenge = challenge_of(error)
            if challenge is None:
                raise
            if challenge.refusal_reason in handled_reasons:
                raise credentials.refusal_error(identity, challenge) from error
            handled_reasons += (challenge.refusal_reason,)
            credential = await credentials.acquire(identity, request.deadline, credential, challenge)
        request = request.with_id(upstream.next_id())


class FutureSink(ResponseSink):
    """Sink that sets the outcome of a request in a future. `notify` receives the server's notifications;
    `end_subscription` is called when the subscription that the request opened has ended.
    """

    def __init__(
        self,
        notify: Callable[[Message], None] | None = None,
        end_subscription: Callable[[], None] | None = None,
    ) -> None:
        self.future: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self._notify = notify
        self._end_subscription = end_subscription

    def take_result(self, result: Raw, members: ResultMembers | None = None) -> None:
        if not self.future.done():
            self.future.set_result(result)

    def take_error(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def notify(self, message: Message) -> None:
        if self._notify is not None:
            self._notify(message)

    def end_subscription(self) -> None:
        if self._end_subscription is not None:
            self._end_subscription()


class TaskCall:
    """`Pending` of a request that the coroutine `work` executes, for upstreams without callbacks. `members` are the
    decoded members of the result, if they are known.
    """

    def __init__(
        self,
        work: Coroutine[Any, Any, Raw],
        sink: ResponseSink,
        name: str,
        members: ResultMembers | None = None,
    ) -> None:
        self._sink: ResponseSink | None = sink
        self._members = members
        self._work = work
        self._task = asyncio.get_running_loop().create_task(self._run(work), name=name)
        self._task.add_done_callback(self._end)

    def cancel(self) -> None:
        self._sink = None
        self._task.cancel()

    def _end(self, task: asyncio.Task[None]) -> None:
        """End a request whose task was cancelled: possibly before its first step, so that `_run` never started."""
        self._work.close()
        if task.cancelled() and self._sink is not None:
            self._sink.take_error(ConnectionLost("the request was stopped with the gateway", sent=True))

    async def _run(self, work: Coroutine[Any, Any, Raw]) -> None:
        try:
            result = await work
        except Exception as error:  # noqa: BLE001  # nothing awaits this task; the sink logs all but McpErrors
            if self._sink is not None:
                self._sink.take_error(error)
        else:
            if self._sink is not None:
                self._sink.take_result(result, self._members)


class RelayUpstream(Upstream):
    """Upstream that forwards every member to another upstream; subclasses override parts.

    Every member of `Upstream` has to be forwarded here. A missing one would be inherited: the default of `Upstream`
    would be used silently, and the wrapped upstream would not be called.
    """

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream

    @property
    def modern(self) -> bool:
        return self.upstream.modern

    @property
    def accepts_tasks(self) -> bool:
        return self.upstream.accepts_tasks

    def next_id(self) -> bytes:
        return self.upstream.next_id()

    def modern_for(self, client: ClientPeer | None) -> bool | None:
        return self.upstream.modern_for(client)

    async def negotiate(
        self, client: ClientPeer | None, deadline: float, credential: CallCredential | None = None
    ) -> bool:
        return await self.upstream.negotiate(client, deadline, credential)

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> Pending:
        return self.upstream.send(request, sink)

    def end_session(self, session: bytes) -> None:
        self.upstream.end_session(session)

    def has_sessions_of(self, person: bytes) -> bool:
        return self.upstream.has_sessions_of(person)

    def end_sessions_of(self, person: bytes) -> None:
        self.upstream.end_sessions_of(person)

    def gauges(self) -> Gauges:
        return self.upstream.gauges()

    async def aclose(self, grace: float, *, replaced: bool = False) -> None:
        await self.upstream.aclose(grace, replaced=replaced)


class CompletedRequest:
    """`Pending` of a request that was completed before `send` returned."""

    def cancel(self) -> None:
        """No-op, as the request is completed."""


NO_OP_PENDING = CompletedRequest()
"""A `Pending` whose `cancel` does nothing."""
