"""One request of a client: JSON-RPC that passed every check of `endpoint.inbound`, and the HTTP exchange (RFC 9110
section 3.4) that it is answered on.

An exchange is implemented by `endpoint.exchange`, and by `calls.path.direct` for the gateway's own calls. The classes
are neither Struct nor Protocol, so that they can be compiled: a call reads two dozen of their attributes, at a tenth of
the price.
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
"""Lower-case name to value; the values of a repeated header are joined by a comma (RFC 9110 section 5.3)."""


class RequestMeta:
    """Members of a request's `_meta` that decide how it is served."""

    __slots__ = (
        "extensions",
        "lacking",
        "log_level",
        "misread",
        "result_tokens",
        "token",
        "traced",
        "version",
        "versioned",
    )

    def __init__(
        self,
        lacking: str,
        version: bytes | None = None,
        *,
        versioned: bool = False,
        token: bool = False,
        log_level: bool = False,
        misread: str = "",
        extensions: frozenset[str] = frozenset(),
        result_tokens: int | None = None,
        traced: bool = False,
    ) -> None:
        self.traced = traced
        """Whether it has a member `traceparent` (SEP-414)."""
        self.result_tokens = result_tokens
        """Tokens that the result may have (`core.long_results`); None for any number, 0 for anything else."""
        self.extensions = extensions
        """Extensions of MCP that a modern client declares with the request (SEP-2133)."""
        self.lacking = lacking
        """Sentence about a member that a modern request lacks; empty for none."""
        self.misread = misread
        """A sentence about a member that servers may read otherwise; wrong in both eras."""
        self.version = version
        """Protocol version of a modern request in the encoding of headers; None where a header cannot hold it."""
        self.versioned = versioned
        """Whether it names a version, supported or not."""
        self.token = token
        """Whether it has a progress token."""
        self.log_level = log_level
        """Whether it asks for log messages."""


NO_META: Final = RequestMeta(f"params._meta lacks the required {eras.META_VERSION}")
"""Meta of a request without `_meta`."""


class McpRequest:
    """One request of a client, with raw params. The call takes members out of `params`."""

    __slots__ = (
        "any_structured",
        "default_tokens",
        "id",
        "meta",
        "method",
        "modern",
        "name",
        "opened",
        "params",
        "recording",
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
        """`Mcp-Session-Id` of a legacy client that has one."""
        self.meta = meta
        self.token = token
        """None where it asks for no progress."""
        self.name: str | None = None
        """Name or URI that `Mcp-Name` repeats, where it was read already to be compared with that."""
        self.opened: LegacySession | None = None
        """The session of that id, where it was signed with our key for this principal."""
        self.any_structured = modern
        """Whether `structuredContent` of its result may be of any type; else it is an object or left out."""
        self.recording: str | None = None
        """Session of kept results that its own is added to (`execute_tool`)."""
        self.result_tokens: int | None = None
        """Tokens that the result may have, where that is said outside of MCP."""
        self.default_tokens: int | None = None
        """Tokens that it may have where nobody says anything; None for any number."""

    @property
    def continued(self) -> bool:
        """Whether it goes on with a request that was answered by questions (SEP-2322)."""
        return "inputResponses" in self.params or "requestState" in self.params

    def read_name(self, member: str) -> str:
        """The name or URI in `member`, which is the one that `Mcp-Name` repeats for this method. Raises KeyError where
        there is none, msgspec.DecodeError or UnicodeDecodeError where it is not a string.
        """
        return jsonrpc.decode_text(self.params[member]) if self.name is None else self.name

    def sessionless(self) -> McpRequest:
        """This request without its session id."""
        return McpRequest(self.modern, self.method, self.id, self.params, None, self.meta, self.token)


@mypyc_attr(allow_interpreted_subclasses=True)
class Exchange:
    """One request that waits for its answer. Everything is a no-op once the client is gone."""

    __slots__ = ("headers", "identity", "tier")

    def __init__(self, headers: Headers, identity: Identity, tier: str | None = None) -> None:
        self.headers = headers
        """Headers of the request that the path of a call reads, by lower-case name."""
        self.identity = identity
        """Principal of the request."""
        self.tier = tier
        """The latency tier whose tools the client sees."""

    @property
    def address(self) -> str:
        """IP address of the client; empty where it has none."""
        raise NotImplementedError

    @property
    def gone(self) -> bool:
        """Whether the client closed the connection."""
        raise NotImplementedError

    def notify(self, message: bytes) -> bool:
        """Send a message ahead of the answer, which then follows it as an event. False: it was dropped, as the client
        is gone, has long not read, or cannot take a stream.
        """
        raise NotImplementedError

    @property
    def congested(self) -> bool:
        """Whether the client does not read what it is sent, so that senders should wait (backpressure)."""
        raise NotImplementedError

    def when_writable(self, go_on: Callable[[], None]) -> None:
        """Have `go_on` called, once, when the client reads again, or is gone."""
        raise NotImplementedError

    def pause(self) -> None:
        """End the client's stream where it can be resumed: the server ended its own, to be polled (SEP-1699)."""
        raise NotImplementedError

    def arrival(self, source: Carrier) -> Arrival:
        """Begin to count a server's large answer against the budget of the agent."""
        raise NotImplementedError

    def answer(self, status: int, *body: bytes | Raw) -> None:
        """Send the JSON-RPC answer, in parts. To be called once, unless `succeed` is."""
        raise NotImplementedError

    def succeed(self, ident: bytes, result: bytes | Raw) -> None:
        """Send the result of the request with that id, both raw JSON."""
        raise NotImplementedError


def agent_of(exchange: Exchange) -> str:
    """Agent that a request is counted for: its principal, or the address or /64 network of an anonymous client."""
    return agent_name(exchange.identity, exchange.address)


def agent_name(identity: Identity, address: str) -> str:
    """Agent of a principal at an address."""
    return f"anonymous {client_of(address)}" if identity.kind == "anonymous" else identity.principal


def agent_in(scope: Mapping[str, Any], peer: tuple[str, int] | None = None) -> str:
    """Agent of a request to the ASGI application; `peer` is the other side of its connection."""
    address, _ = scope.get("client") or peer or ("", 0)
    return agent_name(scope.get(IDENTITY, ANONYMOUS), address)


def by_name(fields: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Headers out of fields in their order, with names in lower case."""
    headers: Headers = {}
    for name, value in fields:
        headers[name] = value if name not in headers else headers[name] + b", " + value
    return headers
