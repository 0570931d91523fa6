"""One JSON-RPC request as a server gets it, and the sink of everything that the server sends until its answer.

Declarations only. Classes of our own, neither Struct nor Protocol, so that they can be compiled: a call reads a dozen
of their attributes.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Raw
from mypy_extensions import mypyc_attr

from fairlead_gateway.core.client_peer import AnswerServer, ClientPeer
from fairlead_mcp import jsonrpc
from fairlead_mcp.http.exchange import Counter
from fairlead_mcp.messages import Message, ResultMembers


class UpstreamRequest:
    """A request under the server's own names, in the era that `Upstream.modern_for` gave. Its maker sets what differs
    from the defaults; never changed once sent.
    """

    __slots__ = (
        "client",
        "counter",
        "deadline",
        "gated",
        "header_lines",
        "id",
        "idempotent",
        "instance",
        "level",
        "listens",
        "max_bytes",
        "method",
        "name_lines",
        "params",
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
        """Raw JSON, from the upstream's `next_id`."""
        self.method = method
        self.params = params
        """Raw JSON object."""
        self.deadline = deadline
        """Seconds of the monotonic clock."""
        self.max_bytes = max_bytes
        """Largest answer, in bytes."""
        self.name_lines = b""
        """`Mcp-Name` and `Mcp-Param-*` as lines of an HTTP head, for modern servers (SEP-2243)."""
        self.header_lines = b""
        """`traceparent`, `tracestate`, `Via` and whatever else servers over HTTP are told, as lines of a head; `params`
        name the trace too (SEP-414)."""
        self.counter: Counter | None = None
        """Counts a large answer while it arrives; None where nothing bounds it."""
        self.client: ClientPeer | None = None
        """Client whose own session with a legacy server is used; None for the session that all share."""
        self.session: bytes | None = None
        """Id of the client's session with the gateway, where it has one."""
        self.level: str | None = None
        """Least severe log message that a legacy server shall send (`upstream.log_levels.LEVELS`); `params` of a modern
        request have it."""
        self.instance: bytes | None = None
        """Tag of the pod, or of the process, that has to get it (`upstream.affinity`)."""
        self.listens = False
        """Whether its client asked for notifications, or may be asked in mid-call: twice if it were sent twice."""
        self.tasks = False
        """Whether the answer may be a task, whose id has to lead back to the pod that has it (SEP-2663)."""
        self.gated = False
        """Whether the server knows the tool only in a session that declared the client's capabilities."""
        self.idempotent = False
        """Whether it may be sent to a second pod while the first may still execute it."""

    def with_id(self, ident: bytes) -> UpstreamRequest:
        """Copy under another id."""
        copy = self._copy()
        copy.id = ident
        return copy

    def with_trace(self, params: bytes, trace_lines: bytes) -> UpstreamRequest:
        """Copy within a span, of a request that names no trace yet."""
        copy = self._copy()
        copy.params = params
        copy.header_lines = trace_lines + self.header_lines
        return copy

    def in_session(self, ident: bytes, client: ClientPeer | None) -> UpstreamRequest:
        """Copy under another id, in the session of `client`."""
        copy = self._copy()
        copy.id = ident
        copy.client = client
        return copy

    def _copy(self) -> UpstreamRequest:
        copy = UpstreamRequest(self.id, self.method, self.params, self.deadline, self.max_bytes)
        copy.name_lines = self.name_lines
        copy.header_lines = self.header_lines
        copy.counter = self.counter
        copy.instance = self.instance
        copy.idempotent = self.idempotent
        self._give_client(copy)
        return copy

    def _give_client(self, copy: UpstreamRequest) -> None:
        """Set what the request has of its client."""
        copy.client = self.client
        copy.session = self.session
        copy.level = self.level
        copy.listens = self.listens
        copy.gated = self.gated
        copy.tasks = self.tasks


@mypyc_attr(allow_interpreted_subclasses=True)
class ResponseSink:
    """Receiver of what a server sends for one request.

    Exactly one of `take_result` and `take_error` is called, once, possibly before `Upstream.send` returns; none after
    `Pending.cancel`. The other methods may be called any number of times before. None may raise or block.
    """

    __slots__ = ()

    @property
    def agent(self) -> str:
        """Agent that the request is made for; empty for one of the gateway's own."""
        return ""

    def take_result(self, result: Raw, members: ResultMembers | None = None) -> None:
        """The raw result, in the era of the request; `members` are its own, where they were read already."""
        raise NotImplementedError

    def take_error(self, error: Exception) -> None:
        """`error` is a McpError, but for defects of the gateway."""
        raise NotImplementedError

    def notify(self, message: Message) -> None:
        """A notification of the server; dropped unless overridden."""

    def ask(self, message: Message, answer: AnswerServer) -> None:
        """A request of a legacy server to the client; refused unless overridden."""
        answer(jsonrpc.reply_to_server(message))

    def pause(self) -> None:
        """A legacy server ended its event stream and waits to be asked for the rest (SEP-1699)."""

    @property
    def congested(self) -> bool:
        """Whether the client does not read what it is sent, so that the server should be held up."""
        return False

    def when_writable(self, go_on: Callable[[], None]) -> None:
        """Have `go_on` called, once, when the client reads again, or is gone."""
        go_on()


@mypyc_attr(allow_interpreted_subclasses=True)
class RelaySink(ResponseSink):
    """Passes everything on to another sink; base of those that watch for the end of a request."""

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

    def pause(self) -> None:
        self.sink.pause()

    @property
    def congested(self) -> bool:
        return self.sink.congested

    def when_writable(self, go_on: Callable[[], None]) -> None:
        self.sink.when_writable(go_on)
