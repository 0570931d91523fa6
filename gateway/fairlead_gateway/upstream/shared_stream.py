"""Requests over a stream of JSON-RPC messages, on stdio, TCP or HTTP+SSE.

Ids and progress tokens are replaced once more by the child process or link that carries the stream.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Hashable
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_gateway.core.client_peer import AnswerServer
from fairlead_gateway.core.ports import Upstream
from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_gateway.sending import TaskCall
from fairlead_gateway.upstream import affinity
from fairlead_gateway.upstream.concurrency import ConcurrencyLimit
from fairlead_gateway.upstream.log_levels import LogLevels
from fairlead_gateway.upstream.server_facts import ServerTraits
from fairlead_mcp import jsonrpc, methods, states
from fairlead_mcp.eras import Era, Negotiated
from fairlead_mcp.errors import McpError, NotMcp, RpcError, TooLarge
from fairlead_mcp.handshake import read_line
from fairlead_mcp.messages import Message
from fairlead_mcp.multiplex import Offering
from fairlead_mcp.stream_client import StreamClient

_PASSED_ON: Final = frozenset(
    {"notifications/message", "notifications/cancelled", "notifications/elicitation/complete"}
)
"""Notifications that reach the client of a stream of its own."""


OTHER_PROCESS: Final = (
    "Unknown task: it was made by a process of the server at another replica of the gateway, or by one that has ended. "
    "A server on stdio has its tasks in its process: keep to one replica, or run the server over HTTP"
)


def is_about_task(request: UpstreamRequest) -> bool:
    """Whether a request is about a task that was made before."""
    return methods.extension_of(request.method) == methods.TASKS


async def request_over(stream: StreamClient, request: UpstreamRequest, sink: ResponseSink) -> Raw:
    """The raw result. Raises McpError.

    Progress is all that a server sends for one request on a stream that clients share; so no capability is declared.
    """

    def on_progress(line: bytes) -> None:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            sink.notify(jsonrpc.decode_message(line))

    line = await stream.request(
        request.method, request.params, deadline=request.deadline, on_progress=on_progress if request.listens else None
    )
    if len(line) > request.max_bytes:
        raise TooLarge(f"the answer exceeds {request.max_bytes} bytes")
    try:
        line.decode()
    except UnicodeDecodeError as error:
        raise NotMcp("the answer is not UTF-8") from error
    return read_line(line)


class ClientStream:
    """Requests on a stream that is one client's own, with the server's log messages, and its questions where the client
    declared capabilities (`features`, normalized). Neither says which request it belongs to, so a stream that clients
    share has none of them.
    """

    def __init__(self, features: bytes) -> None:
        self.offering = Offering(features, self._ask)
        self._working: list[ResponseSink] = []
        self._levels = LogLevels(shared=False)
        self._life = 0

    async def request(self, stream: StreamClient, request: UpstreamRequest, sink: ResponseSink) -> Raw:
        """As `request_over`, at the log level of the client."""
        self._working.append(sink)
        try:
            if request.level is not None:
                await self._set_level(stream, request.level, request.deadline)
            return await request_over(stream, request, sink)
        finally:
            self._working = [other for other in self._working if other is not sink]

    async def _set_level(self, stream: StreamClient, level: str, deadline: float) -> None:
        agreed = await stream.ready(deadline)
        if agreed.era is Era.MODERN or not agreed.offers("logging"):
            return
        if self._life != stream.starts:
            self._levels = LogLevels(shared=False)
            self._life = stream.starts
        due = self._levels.due(None, level, stream.clock())
        if due is not None:
            with contextlib.suppress(McpError):  # the request that follows meets the same trouble, if it lasts
                await stream.request("logging/setLevel", jsonrpc.encode({"level": due}), deadline=deadline)

    def relay(self, method: str, line: bytes) -> None:
        """Pass a notification on. May not raise."""
        if method not in _PASSED_ON:
            return
        told = self._working[-1:] if method == "notifications/message" else self._working
        for sink in [*told]:
            with contextlib.suppress(*jsonrpc.UNREADABLE):
                sink.notify(jsonrpc.decode_message(line))

    def _ask(self, message: Message, answer: AnswerServer) -> None:
        """Pass a question on by the latest request of the client."""
        if self._working:
            self._working[-1].ask(message, answer)
        else:
            answer(jsonrpc.reply_to_server(message))


class StreamUpstream(Upstream):
    """Upstream over one stream. `own`: the one client whose stream it is, None where all clients share it. To a legacy
    server that they share no capability is declared (`upstream.capability_gated`).
    """

    def __init__(self, name: Hashable, traits: ServerTraits, own: ClientStream | None) -> None:
        self.name = name
        self.limit = ConcurrencyLimit(traits.limit, name)
        self.own = own
        self._modern = traits.modern
        self._count = itertools.count(1).__next__

    def negotiated(self) -> Negotiated | None:
        """Outcome of the stream's handshake; None before it."""
        raise NotImplementedError

    def stream(self) -> StreamClient:
        """The stream, opened where it is not."""
        raise NotImplementedError

    @property
    def modern(self) -> bool:
        agreed = self.negotiated()
        return self._modern if agreed is None else agreed.era is Era.MODERN

    def next_id(self) -> bytes:
        return b"%d" % self._count()

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> TaskCall:
        return TaskCall(self.request(request, sink), sink, f"{request.method} {self.name}")

    async def request(self, request: UpstreamRequest, sink: ResponseSink) -> Raw:
        """The raw result. Raises McpError."""
        with self.limit:
            stream = self.stream()
            process, own = None, self.own is not None
            about = request.instance is not None and is_about_task(request)
            if request.tasks or about or own:
                await stream.ready(request.deadline)
                process = stream.process
            if about and process not in (None, request.instance):  # which may have another task under the same id
                raise RpcError(jsonrpc.INVALID_PARAMS, OTHER_PROCESS)
            if self.own is None:
                result = await request_over(stream, request, sink)
            else:
                result = await self.own.request(stream, request, sink)
            if process is None:
                return result
            if request.tasks:
                result = affinity.marked(result, process, "taskId")
            return affinity.marked(result, process, states.STATE) if own and self.modern else result
