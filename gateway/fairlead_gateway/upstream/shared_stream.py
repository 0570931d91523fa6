"""Upstreams over a stream of JSON-RPC messages, on stdio, TCP or HTTP+SSE.

Each request already has an id and a progress token of the gateway. The `StreamClient` of the connection replaces them
by its own, because several upstreams share its stream.
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

_FORWARDED_METHODS: Final = frozenset(
    {"notifications/message", "notifications/cancelled", "notifications/elicitation/complete"}
)
"""Notifications that are forwarded on a stream that belongs to one client."""


OTHER_PROCESS: Final = (
    "Unknown task: it was created by a server process at another replica of the gateway, or by one that has ended. "
    "A server on stdio keeps its tasks in its process: use one replica, or run the server over HTTP"
)


def is_about_task(request: UpstreamRequest) -> bool:
    """Whether a request is about an existing task."""
    return methods.extension_of(request.method) == methods.TASKS


async def request_over(stream: StreamClient, request: UpstreamRequest, sink: ResponseSink) -> Raw:
    """Send a request over a stream. Returns the raw result. Raises McpError.

    Only progress notifications are forwarded: on a shared stream, no other message names the request it belongs to.
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
    """Requests on a stream that belongs to one client.

    Also forwards the server's log messages, and its requests if the client has declared capabilities (`features`, in
    normalized form). Log messages and requests do not name the call that they belong to, so shared streams do not
    forward them.
    """

    def __init__(self, features: bytes) -> None:
        self.offering = Offering(features, self._ask)
        self._active_sinks: list[ResponseSink] = []
        self._levels = LogLevels(shared=False)
        self._stream_number = 0
        """`StreamClient.starts` when `_levels` was created: after a restart, the server has its default level again."""

    async def request(self, stream: StreamClient, request: UpstreamRequest, sink: ResponseSink) -> Raw:
        """Send a request like `request_over`, after setting the client's log level."""
        self._active_sinks.append(sink)
        try:
            if request.level is not None:
                await self._set_level(stream, request.level, request.deadline)
            return await request_over(stream, request, sink)
        finally:
            self._active_sinks = [other for other in self._active_sinks if other is not sink]

    async def _set_level(self, stream: StreamClient, level: str, deadline: float) -> None:
        negotiated = await stream.wait_until_ready(deadline)
        if negotiated.era is Era.MODERN or not negotiated.offers("logging"):
            return
        if self._stream_number != stream.starts:
            self._levels = LogLevels(shared=False)
            self._stream_number = stream.starts
        level_to_set = self._levels.level_to_set(None, level, stream.clock())
        if level_to_set is not None:
            with contextlib.suppress(McpError):  # the request that follows fails too if the error persists
                await stream.request("logging/setLevel", jsonrpc.encode({"level": level_to_set}), deadline=deadline)

    def relay(self, method: str, line: bytes) -> None:
        """Forward a notification to the client. Must not raise."""
        if method not in _FORWARDED_METHODS:
            return
        sinks = self._active_sinks[-1:] if method == "notifications/message" else self._active_sinks
        for sink in [*sinks]:
            with contextlib.suppress(*jsonrpc.UNREADABLE):
                sink.notify(jsonrpc.decode_message(line))

    def _ask(self, message: Message, answer: AnswerServer) -> None:
        """Forward a request of the server to the client, through the client's latest request."""
        if self._active_sinks:
            self._active_sinks[-1].ask(message, answer)
        else:
            answer(jsonrpc.reply_to_server(message))


class StreamUpstream(Upstream):
    """Upstream over one stream, shared by all clients or, with `client_stream`, belonging to one client.

    A shared stream to a legacy server declares no capabilities (`upstream.capability_gated`).
    """

    def __init__(self, name: Hashable, traits: ServerTraits, client_stream: ClientStream | None) -> None:
        self.name = name
        self.limit = ConcurrencyLimit(traits.limit, name)
        self.client_stream = client_stream
        self._modern = traits.modern
        self._next_number = itertools.count(1).__next__

    def negotiated(self) -> Negotiated | None:
        """Outcome of the stream's handshake; None before the handshake."""
        raise NotImplementedError

    def stream(self) -> StreamClient:
        """The stream, which is opened if necessary."""
        raise NotImplementedError

    @property
    def modern(self) -> bool:
        negotiated = self.negotiated()
        return self._modern if negotiated is None else negotiated.era is Era.MODERN

    def next_id(self) -> bytes:
        return b"%d" % self._next_number()

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> TaskCall:
        return TaskCall(self.request(request, sink), sink, f"{request.method} {self.name}")

    async def request(self, request: UpstreamRequest, sink: ResponseSink) -> Raw:
        """Send a request. Returns the raw result. Raises McpError."""
        with self.limit:
            stream = self.stream()
            if stream.negotiated is None:
                await stream.wait_until_ready(sink.wait_for_start(request.deadline))
                request = request.with_deadline(sink.process_started(request.deadline))
            process, is_own = None, self.client_stream is not None
            about_task = request.affinity_tag is not None and is_about_task(request)
            if request.tasks or about_task or is_own:
                await stream.wait_until_ready(request.deadline)
                process = stream.process
            # another process may have another task with the same id
            if about_task and process not in (None, request.affinity_tag):
                raise RpcError(jsonrpc.INVALID_PARAMS, OTHER_PROCESS)
            if self.client_stream is None:
                result = await request_over(stream, request, sink)
            else:
                result = await self.client_stream.request(stream, request, sink)
            if process is None:
                return result
            if request.tasks:
                result = affinity.add_tag(result, process, "taskId")
            return affinity.add_tag(result, process, states.STATE) if is_own and self.modern else result
