"""A JSON-RPC request to a server, and the interface that receives the server's messages for it.

The classes are neither msgspec Structs nor Protocols, so that mypyc can compile them: a call reads about twelve of
their attributes.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Raw
from mypy_extensions import mypyc_attr

from fairlead_gateway.core.client_peer import AnswerServer, ClientPeer
from fairlead_gateway.core.outbound import CallCredential
from fairlead_mcp import jsonrpc
from fairlead_mcp.http.exchange import Counter
from fairlead_mcp.messages import Message, ResultMembers


class UpstreamRequest:
    """A request to a server, with the server's own names, in the era that `Upstream.modern_for` returned.

    Its creator sets the attributes that differ from the defaults. After the request was sent it is not changed.
    """

    __slots__ = (
        "affinity_tag",
        "authorization",
        "client",
        "counter",
        "deadline",
        "header_lines",
        "id",
        "idempotent",
        "level",
        "listens",
        "max_bytes",
        "method",
        "name_lines",
        "needs_declaring_session",
        "params",
        "person",
        "session",
        "tasks",
    )

    def __init__(
        self,
        id: bytes,  # noqa: A002 - JSON-RPC's word
        method: str,
        params: bytes,
        deadline: float,
        max_bytes: int,
    ) -> None:
        self.id = id
        """JSON-RPC id from the upstream's `next_id`, raw JSON."""
        self.method = method
        self.params = params
        """Raw JSON object."""
        self.deadline = deadline
        """Time at which the request fails, in seconds of the monotonic clock."""
        self.max_bytes = max_bytes
        """Maximum number of bytes of the response."""
        self.name_lines = b""
        """`Mcp-Name` and `Mcp-Param-*` header lines for modern servers (SEP-2243)."""
        self.header_lines = b""
        """`traceparent`, `tracestate`, `Via` and other header lines for servers over HTTP. `params` have the trace
        context too (SEP-414)."""
        self.authorization = b""
        """`Authorization` header line with the access token of this request; empty if all requests have one
        credential.
        """
        self.person = b""
        """Key of the outbound user to whom the token belongs (`core.outbound`); empty if all callers share it."""
        self.counter: Counter | None = None
        """Counts a large response while it arrives; None if no budget applies."""
        self.client: ClientPeer | None = None
        """Client whose own session with a legacy server is used; None for the shared session."""
        self.session: bytes | None = None
        """Id of the client's session with the gateway; None without one."""
        self.level: str | None = None
        """Least severe log messages that a legacy server should send (`upstream.log_levels.LEVELS`). Modern requests
        have the level in `params`."""
        self.affinity_tag: bytes | None = None
        """Tag of the pod or process that has to serve the request (`upstream.affinity`); None if any can."""
        self.listens = False
        """Whether the client receives notifications or server requests during the call. Such a request is not hedged,
        as the client would receive them twice."""
        self.tasks = False
        """Whether the response may be a task, whose id then has to identify its pod (SEP-2663)."""
        self.needs_declaring_session = False
        """Whether the tool exists only in sessions that declare the client's capabilities to the server."""
        self.idempotent = False
        """Whether the request may be sent to a second pod while the first may still execute it."""

    def with_id(self, ident: bytes) -> UpstreamRequest:
        """A copy with another id."""
        copy = self._copy()
        copy.id = ident
        return copy

    def with_deadline(self, deadline: float) -> UpstreamRequest:
        """A copy with another deadline; the request itself if it has this one."""
        if deadline == self.deadline:
            return self
        copy = self._copy()
        copy.deadline = deadline
        return copy

    def with_trace(self, params: bytes, trace_lines: bytes) -> UpstreamRequest:
        """A copy with a trace context, for a request that has none yet."""
        copy = self._copy()
        copy.params = params
        copy.header_lines = trace_lines + self.header_lines
        return copy

    def authorize(self, credential: CallCredential) -> None:
        """Set the token, before the request is sent."""
        self.authorization = credential.line
        self.person = credential.person

    def in_session(self, ident: bytes, client: ClientPeer | None) -> UpstreamRequest:
        """A copy with another id, for the session of `client`."""
        copy = self._copy()
        copy.id = ident
        copy.client = client
        return copy

    def _copy(self) -> UpstreamRequest:
        copy = UpstreamRequest(self.id, self.method, self.params, self.deadline, self.max_bytes)
        copy.name_lines = self.name_lines
        copy.header_lines = self.header_lines
        copy.authorization = self.authorization
        copy.person = self.person
        copy.counter = self.counter
        copy.affinity_tag = self.affinity_tag
        copy.idempotent = self.idempotent
        self._copy_client(copy)
        return copy

    def _copy_client(self, copy: UpstreamRequest) -> None:
        """Copy the attributes that depend on the client."""
        copy.client = self.client
        copy.session = self.session
        copy.level = self.level
        copy.listens = self.listens
        copy.needs_declaring_session = self.needs_declaring_session
        copy.tasks = self.tasks


@mypyc_attr(allow_interpreted_subclasses=True)
class ResponseSink:
    """Receives the messages that a server sends for one request.

    Either `take_result` or `take_error` is called, exactly once, possibly before `Upstream.send` returns. Until then,
    the other methods may be called any number of times. Nothing is called after `Pending.cancel`. Implementations must
    not raise or block.
    """

    __slots__ = ()

    @property
    def agent(self) -> str:
        """Agent for which the request is sent; empty for the gateway's own requests."""
        return ""

    def take_result(self, result: Raw, members: ResultMembers | None = None) -> None:
        """Receive the raw result, in the era of the request. `members` are its decoded members, if already decoded."""
        raise NotImplementedError

    def take_error(self, error: Exception) -> None:
        """Receive an error: a McpError, or another exception for a defect of the gateway."""
        raise NotImplementedError

    def notify(self, message: Message) -> None:
        """Receive a notification of the server; ignored unless overridden."""

    def ask(self, message: Message, answer: AnswerServer) -> None:
        """Receive a request of a legacy server to the client; rejected unless overridden."""
        answer(jsonrpc.reply_to_server(message))

    def wait_for_start(self, deadline: float) -> float:
        """Record that the request waits for the start of the server's process. Returns the time at which that wait has
        to end, which replaces the request's `deadline`.
        """
        return deadline

    def process_started(self, deadline: float) -> float:
        """Record that the process has started and the request is being sent. Returns the request's deadline."""
        return deadline

    def answer_arrived(self) -> None:
        """Record that the server has answered successfully; the result still has to be made from the answer."""

    def pause(self) -> None:
        """Record that a legacy server ended its stream, and expects the gateway to poll for the rest (SEP-1699)."""

    def end_subscription(self) -> None:
        """Record that the subscription of this request has ended, because its session with a legacy server ended. May
        be called after the result.
        """

    @property
    def congested(self) -> bool:
        """Whether the client has unread data, so that the gateway should stop reading from the server."""
        return False

    def when_writable(self, resume: Callable[[], None]) -> None:
        """Call `resume` once when the client reads again or disconnects."""
        resume()


@mypyc_attr(allow_interpreted_subclasses=True)
class RelaySink(ResponseSink):
    """Forwards everything to another sink; base class of sinks that observe a request."""

    __slots__ = ("sink",)

    def __init__(self, sink: ResponseSink) -> None:
        self.sink = sink

    @property
    def agent(self) -> str:
        return self.sink.agent

    def take_result(self, result: Raw, members: ResultMembers | None = None) -> None:
        self.sink.take_result(result, members)

    def take_error(self, error: Exception) -> None:
        self.sink.take_error(error)

    def notify(self, message: Message) -> None:
        self.sink.notify(message)

    def ask(self, message: Message, answer: AnswerServer) -> None:
        self.sink.ask(message, answer)

    def wait_for_start(self, deadline: float) -> float:
        return self.sink.wait_for_start(deadline)

    def process_started(self, deadline: float) -> float:
        return self.sink.process_started(deadline)

    def answer_arrived(self) -> None:
        self.sink.answer_arrived()

    def pause(self) -> None:
        self.sink.pause()

    def end_subscription(self) -> None:
        self.sink.end_subscription()

    @property
    def congested(self) -> bool:
        return self.sink.congested

    def when_writable(self, resume: Callable[[], None]) -> None:
        self.sink.when_writable(resume)
