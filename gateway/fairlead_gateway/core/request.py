"""A client's request, validated by `endpoint.inbound`, and the HTTP exchange (RFC 9110 section 3.4) for its response.

`endpoint.exchange` implements the exchanges of MCP clients, `calls.path.direct` implements the exchanges of tool calls
over REST. The classes are neither msgspec Structs nor Protocols, so that mypyc can compile them: a call reads about 24
of their attributes, and reads of compiled attributes are ten times as fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from msgspec import Raw
from mypy_extensions import mypyc_attr

from fairlead_gateway.core.identity import ANONYMOUS, IDENTITY, Identity
from fairlead_gateway.core.session import LegacySession
from fairlead_mcp import eras, jsonrpc
from fairlead_mcp.addresses import client_of
from fairlead_mcp.http.answer import Carrier
from fairlead_mcp.http.exchange import Arrival
from fairlead_mcp.jsonrpc import RawObject
from fairlead_mcp.progress_token import ProgressToken

Headers: TypeAlias = dict[bytes, bytes]
"""Header values by lower-case name; values of a repeated header are joined by a comma (RFC 9110 section 5.3)."""
ON_DISCONNECT: Final = "fairlead.on_disconnect"
"""Key of a function in an ASGI scope. Its parameter is a function that is called when the client disconnects, or None
for no function.
"""
FORWARDED: Final = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via")
"""Headers by which proxies say that they forward a request."""


class RequestMeta:
    """Members of a request's `_meta` that affect how the request is served."""

    __slots__ = (
        "extensions",
        "has_log_level",
        "has_token",
        "has_traceparent",
        "has_version",
        "misread_message",
        "missing_member",
        "result_tokens",
        "version",
    )

    def __init__(
        self,
        missing_member: str,
        version: bytes | None = None,
        *,
        has_version: bool = False,
        has_token: bool = False,
        has_log_level: bool = False,
        misread_message: str = "",
        extensions: frozenset[str] = frozenset(),
        result_tokens: int | None = None,
        has_traceparent: bool = False,
    ) -> None:
        self.has_traceparent = has_traceparent
        """Whether `_meta` has a `traceparent` (SEP-414)."""
        self.result_tokens = result_tokens
        """Maximum tokens of the result (`core.long_results`); None if unlimited, 0 if the value is invalid."""
        self.extensions = extensions
        """MCP extensions that a modern client declares with the request (SEP-2133)."""
        self.missing_member = missing_member
        """Message about a required member that a modern request lacks; empty if none is missing."""
        self.misread_message = misread_message
        """Message about a member that servers may interpret differently from the gateway, an error in both eras; empty
        if there is none.
        """
        self.version = version
        """Protocol version of a modern request, encoded for a header; None if a header cannot contain it."""
        self.has_version = has_version
        """Whether `_meta` has a protocol version, supported or not."""
        self.has_token = has_token
        """Whether `_meta` has a progress token."""
        self.has_log_level = has_log_level
        """Whether `_meta` requests log messages."""


NO_META: Final = RequestMeta(f"params._meta lacks the required {eras.META_VERSION}")
"""Value for a request without `_meta`."""


class McpRequest:
    """A client's request with raw params. Its members in `params` may be removed while the request is served."""

    __slots__ = (
        "any_structured",
        "client_arguments",
        "context_session",
        "default_tokens",
        "id",
        "legacy_session",
        "meta",
        "method",
        "modern",
        "name",
        "params",
        "result_tokens",
        "session",
        "token",
    )

    def __init__(
        self,
        modern: bool,
        method: str,
        id: bytes,  # noqa: A002 - JSON-RPC's word
        params: RawObject,
        session: bytes | None,
        meta: RequestMeta = NO_META,
        token: ProgressToken | None = None,
    ) -> None:
        self.modern = modern
        self.method = method
        self.id = id
        """Raw JSON: a string or an integer."""
        self.params = params
        self.session = session
        """`Mcp-Session-Id` of a legacy client; None without one."""
        self.meta = meta
        self.client_arguments: Raw | None = None
        """Arguments as the client sent them, if the tool's shape has changed those in `params`; else None."""
        self.token = token
        """Progress token; None if the request has none."""
        self.name: str | None = None
        """Name or URI in `params`, if it was already read to compare it with `Mcp-Name`."""
        self.legacy_session: LegacySession | None = None
        """The legacy session, if its id was signed with the gateway's key for this principal."""
        self.any_structured = modern
        """Whether the result's `structuredContent` may be of any type; else it must be an object or is left out."""
        self.context_session: str | None = None
        """Id of the context session in which the result is stored (`execute_tool`); None to store nothing."""
        self.result_tokens: int | None = None
        """Maximum number of tokens of the result, for a call over REST; None if unlimited."""
        self.default_tokens: int | None = None
        """Maximum number of tokens of the result if no other limit is set; None if unlimited."""

    @property
    def continued(self) -> bool:
        """Whether the request continues a call that was answered with `input_required` (SEP-2322)."""
        return "inputResponses" in self.params or "requestState" in self.params

    def read_name(self, member: str) -> str:
        """The name or URI in `member` of `params`, which the header `Mcp-Name` repeats.

        Raises KeyError if the member is missing, and msgspec.DecodeError or UnicodeDecodeError if it is not a string.
        """
        return jsonrpc.decode_text(self.params[member]) if self.name is None else self.name

    def without_session(self) -> McpRequest:
        """A copy of the request without its session id."""
        return McpRequest(self.modern, self.method, self.id, self.params, None, self.meta, self.token)


@mypyc_attr(allow_interpreted_subclasses=True)
class Exchange:
    """HTTP request of a client that awaits its response. All methods are no-ops after the client has disconnected."""

    __slots__ = ("headers", "identity", "tier")

    def __init__(self, headers: Headers, identity: Identity, tier: str | None = None) -> None:
        self.headers = headers
        """Headers of the request that calls use, by lower-case name."""
        self.identity = identity
        """Principal of the request."""
        self.tier = tier
        """Latency tier of the request's view; None without one."""

    @property
    def address(self) -> str:
        """IP address of the client; empty if it has none."""
        raise NotImplementedError

    @property
    def gone(self) -> bool:
        """Whether the client closed the connection."""
        raise NotImplementedError

    @property
    def detached(self) -> bool:
        """Whether nobody reads the response: the client has closed the connection, but may still resume the stream."""
        return self.gone

    def notify(self, message: bytes) -> bool:
        """Send a message before the answer, which makes the response an event stream.

        Returns False if the message was dropped, because the client has disconnected, does not read, or accepts no
        event stream.
        """
        raise NotImplementedError

    @property
    def congested(self) -> bool:
        """Whether the client has unread data, so that senders should wait (back-pressure)."""
        raise NotImplementedError

    def when_writable(self, resume: Callable[[], None]) -> None:
        """Call `resume` once when the client reads again or disconnects."""
        raise NotImplementedError

    def pause(self) -> None:
        """End the client's event stream before the answer, if the client can resume the stream later.

        The server has ended its stream to the gateway in the same way, and expects the gateway to poll (SEP-1699).
        """
        raise NotImplementedError

    def arrival(self, source: Carrier) -> Arrival:
        """Begin to count the bytes of a server's large response, which arrives from `source`, for the agent."""
        raise NotImplementedError

    def answer(self, status: int, *body: bytes | Raw) -> None:
        """Answer with an HTTP status and a JSON-RPC response, given in parts.

        Exactly one of `answer` and `succeed` is called, once.
        """
        raise NotImplementedError

    def succeed(self, ident: bytes, result: bytes | Raw) -> None:
        """Answer with `result` to the request with the id `ident`; both are raw JSON."""
        raise NotImplementedError


def agent_of(exchange: Exchange) -> str:
    """Name of the agent that a request counts for in limits: the principal, or an anonymous client's address or /64
    network.
    """
    return agent_name(exchange.identity, exchange.address)


def agent_name(identity: Identity, address: str) -> str:
    """Name of the agent for an identity and a client address."""
    return f"anonymous {client_of(address)}" if identity.kind == "anonymous" else identity.principal


def agent_in(scope: Mapping[str, Any], peer: tuple[str, int] | None = None) -> str:
    """Name of the agent of an ASGI request; `peer` is the address of its connection, if the scope has no client."""
    address, _ = scope.get("client") or peer or ("", 0)
    return agent_name(scope.get(IDENTITY, ANONYMOUS), address)


def is_forwarded(headers: Headers) -> bool:
    """Whether the headers say that a proxy forwards the request, so that its sender may be on any machine."""
    return any(name in headers for name in FORWARDED)


def by_name(fields: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Build headers from a list of fields."""
    headers: Headers = {}
    for name, value in fields:
        headers[name] = value if name not in headers else headers[name] + b", " + value
    return headers
