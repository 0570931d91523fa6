"""Everything that can go wrong on the wire, as one tree.

Raised by every module of this package and by nothing else. The operator turns `reason` into a condition reason, the
gateway maps the classes onto its error codes, so reasons are part of the contract: they are added, never renamed.

    McpError
      TransportError            nothing that the server said: the network, the process, the clock or a bound
        ConnectFailed           no connection came about, so nothing was sent
        ConnectionLost          a connection went away under a request
        Timeout                 the deadline passed
        TooLarge                a bound was exceeded; the connection was closed
        PoolFull                too many requests were waiting already; nothing was sent
        HeldUp                  the answer was not read to its end, as this side had no room for it
      ProtocolError             the server answered, but not in MCP
        BadHttp                 not HTTP
        NotMcp                  HTTP, but not MCP (HTML, an empty body, another content type)
        BadJson                 cut off or malformed JSON
        UnsupportedVersion      no protocol revision in common
        BadListing              pages without end, or more than the bounds allow
      HttpRefused               an HTTP status that is a refusal, without a JSON-RPC error
      RpcError                  a JSON-RPC error
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


class McpError(Exception):
    """Base of the tree. `reason` is a stable CamelCase word; `str(error)` is one sentence for a person."""

    reason: str = "MCPError"

    def __init__(self, message: str, *, reason: str | None = None) -> None:
        super().__init__(message)
        if reason is not None:
            self.reason = reason

    @property
    def problem(self) -> str:
        """Sentence about the error, without what to do about it: for messages that end with advice of their own."""
        return str(self)


class TransportError(McpError):
    """Nothing can be said about the server's protocol: never an era verdict."""

    reason = "TransportError"


class ConnectFailed(TransportError):
    """No connection: nothing was sent, so any request may be tried again.

    Reasons: ConnectionRefused, UnknownHost, ConnectTimeout, TLSFailed, Unreachable; for a child process StartFailed,
    CommandNotFound, BackingOff, Closed; for a server on stdio in a pod TooManyProcesses.
    """

    reason = "Unreachable"


class ConnectionLost(TransportError):
    """The connection (or the process) went away under a request.

    `sent` says whether the request may have reached the server; `reused` whether the connection had served before;
    `received` whether a part of the answer had come. Reasons: ConnectionLost, or ClosedMidAnswer when `received`.
    """

    reason = "ConnectionLost"

    def __init__(
        self,
        message: str,
        *,
        sent: bool,
        reused: bool = False,
        received: bool = False,
        reason: str | None = None,
    ) -> None:
        super().__init__(message, reason=reason or ("ClosedMidAnswer" if received else "ConnectionLost"))
        self.sent = sent
        self.reused = reused
        self.received = received

    @property
    def keep_alive_race(self) -> bool:
        """A kept connection closed without a byte: the server most likely never read the request.

        Only likely, so that no more than an idempotent request may be repeated on it.
        """
        return self.reused and not self.received


class Timeout(TransportError):
    """The deadline passed. `sent` is False while the request was still waiting for a connection.

    Reasons: Timeout (the server did not answer in time), QueueTimeout (no connection came free in time), Silent (its
    process was started and has not answered yet).
    """

    reason = "Timeout"

    def __init__(self, message: str, *, sent: bool, reason: str | None = None) -> None:
        super().__init__(message, reason=reason or ("Timeout" if sent else "QueueTimeout"))
        self.sent = sent


class TooLarge(TransportError):
    """An answer, header block, event or line exceeded its bound. Reasons: AnswerTooLarge, HeadersTooLarge."""

    reason = "AnswerTooLarge"


class PoolFull(TransportError):
    """As many requests as allowed were already waiting for a connection; nothing was sent."""

    reason = "PoolFull"


class HeldUp(TransportError):
    """The answer was not read to its end before the deadline: this side had no room for the rest of it."""

    reason = "HeldUp"


class ProtocolError(McpError):
    """The server answered with something that is not the protocol."""

    reason = "ProtocolError"


class BadHttp(ProtocolError):
    """The bytes are not HTTP/1.1, or carry a coding that was not asked for."""

    reason = "BadHTTP"


class NotMcp(ProtocolError):
    """An HTTP answer that is not MCP.

    `status`, `content_type` and `excerpt` (the first characters of the body) say what was seen.
    Reasons: HTMLInsteadOfMCP, EmptyAnswer, WrongAnswerID, NotMCP.
    """

    reason = "NotMCP"

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        content_type: str = "",
        excerpt: str = "",
        reason: str | None = None,
    ) -> None:
        super().__init__(message, reason=reason)
        self.status = status
        self.content_type = content_type
        self.excerpt = excerpt


class BadJson(ProtocolError):
    """Reasons: TruncatedJSON (the document ends too early), BadJSON (it is malformed)."""

    reason = "BadJSON"


class UnsupportedVersion(ProtocolError):
    """The server insists on a protocol revision that this side does not speak."""

    reason = "UnsupportedVersion"


class BadListing(ProtocolError):
    """A listing that does not end or does not fit. Reasons: TooManyPages, TooManyItems, ListingTooLarge."""

    reason = "BadListing"


REFUSALS: Final[Mapping[int, str]] = MappingProxyType(
    {
        401: "Unauthorized",
        403: "Forbidden",
        404: "NotFound",
        405: "MethodNotAllowed",
        406: "NotAcceptable",
        413: "RequestTooLarge",
        415: "UnsupportedMediaType",
        421: "MisdirectedRequest",
        429: "TooManyRequests",
        508: "LoopDetected",
    }
)
"""HTTP statuses that have a reason of their own; the rest is Redirected (3xx), ServerError (5xx) or HTTPRefused."""


class HttpRefused(McpError):
    """An HTTP refusal without a JSON-RPC error in it. `status` is the HTTP status; redirects are never followed."""

    reason = "HTTPRefused"

    def __init__(self, message: str, *, status: int, retry_after: str | None = None) -> None:
        super().__init__(message, reason=_refusal_reason(status))
        self.status = status
        self.retry_after = retry_after


def _refusal_reason(status: int) -> str:
    if status in REFUSALS:
        return REFUSALS[status]
    if 300 <= status < 400:
        return "Redirected"
    return "ServerError" if status >= 500 else "HTTPRefused"


class RpcError(McpError):
    """A JSON-RPC error (JSON-RPC 2.0 section 5.1).

    `code` and `message` are the server's, `data` its raw JSON or None, `status` the HTTP status (0 off HTTP).
    """

    reason = "RPCError"

    def __init__(self, code: int, message: str, data: bytes | None = None, *, status: int = 0) -> None:
        super().__init__(f"the server answered with error {code}: {message}")
        self.code = code
        self.message = message
        self.data = data
        self.status = status
