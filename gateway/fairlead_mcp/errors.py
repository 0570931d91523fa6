"""Exceptions of communication with MCP servers.

The operator publishes `reason` as the reason of a condition and the gateway maps the classes to error codes. Reasons
are therefore part of the API: new ones may be added, existing ones are never renamed.

    McpError
      TransportError            not an answer of the server: the network, the process, a deadline or a limit
        ConnectFailed           no connection could be opened, so nothing was sent
        ConnectionLost          a connection was lost during a request
        Timeout                 the deadline passed
        TooLarge                an answer exceeded a limit; the connection was closed
        PoolFull                too many requests were waiting already; nothing was sent
        HeldUp                  the answer was not read to its end, as this side had no memory or process for it
      ArgumentsRefused          the arguments cannot be written into a request; nothing was sent
      ProtocolError             the server's answer violates the protocol
        BadHttp                 not HTTP
        NotMcp                  HTTP, but not MCP (HTML, an empty body, another content type)
        BadJson                 cut off or malformed JSON
        UnsupportedVersion      no protocol revision in common
        BadListing              an endless or too large listing
      HttpRefused               an HTTP error status without a JSON-RPC error
      RpcError                  a JSON-RPC error
      HandshakeRefused          a JSON-RPC error as the answer to `initialize`, so that no request was sent
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


class McpError(Exception):
    """Base class. `reason` is a stable CamelCase word; `str(error)` is one sentence for a user."""

    reason: str = "MCPError"

    def __init__(self, message: str, *, reason: str | None = None) -> None:
        super().__init__(message)
        if reason is not None:
            self.reason = reason

    @property
    def problem(self) -> str:
        """Description of the error without advice, for messages that end with other advice."""
        return str(self)


class TransportError(McpError):
    """The request got no answer. The error says nothing about the protocol or the era of the server."""

    reason = "TransportError"


class ConnectFailed(TransportError):
    """No connection could be opened. Nothing was sent, so any request may be retried.

    Reasons: ConnectionRefused, UnknownHost, ConnectTimeout, TLSFailed, Unreachable; for a child process StartFailed,
    CommandNotFound, BackingOff, Closed; for a server on stdio in a pod TooManyProcesses.
    """

    reason = "Unreachable"


class ConnectionLost(TransportError):
    """The connection was closed, or the process ended, during a request.

    `sent`: the request may have reached the server. `reused`: the connection had carried earlier exchanges. `received`:
    a part of the answer had arrived. Reasons: ConnectionLost, or ClosedMidAnswer when `received`.
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
        """Whether a kept-alive connection closed without a byte, so that the server probably never read the request.

        As that is not certain, only idempotent requests may be repeated.
        """
        return self.reused and not self.received


class Timeout(TransportError):
    """The deadline passed. `sent` is False while the request was still waiting for a connection.

    Reasons: Timeout (the server did not answer in time), QueueTimeout (no connection became free in time), Silent (the
    server's process was started and has not answered yet).
    """

    reason = "Timeout"

    def __init__(self, message: str, *, sent: bool, reason: str | None = None) -> None:
        super().__init__(message, reason=reason or ("Timeout" if sent else "QueueTimeout"))
        self.sent = sent


class TooLarge(TransportError):
    """An answer, header block, event or line exceeded its limit. Reasons: AnswerTooLarge, HeadersTooLarge."""

    reason = "AnswerTooLarge"


class PoolFull(TransportError):
    """The limit of requests that wait for a connection was reached; nothing was sent."""

    reason = "PoolFull"


class HeldUp(TransportError):
    """The answer was not read to its end before the deadline, because this side had no memory or process for it."""

    reason = "HeldUp"


class ArgumentsRefused(McpError):
    """The arguments of a call cannot be written into the server's kind of request; nothing was sent."""

    reason = "ArgumentsRefused"


class ProtocolError(McpError):
    """The server's answer violates the protocol."""

    reason = "ProtocolError"


class BadHttp(ProtocolError):
    """The answer is not HTTP/1.1, or has a content coding that the request does not accept."""

    reason = "BadHTTP"


class NotMcp(ProtocolError):
    """The answer is HTTP but not MCP. `excerpt` has the first characters of the body.

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
    """The answer is not valid JSON. Reasons: TruncatedJSON (it ends too early), BadJSON (it is malformed)."""

    reason = "BadJSON"


class UnsupportedVersion(ProtocolError):
    """The server answers with a protocol revision that this side does not support."""

    reason = "UnsupportedVersion"


class BadListing(ProtocolError):
    """A listing is endless or too large. Reasons: TooManyPages, TooManyItems, ListingTooLarge."""

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
"""Reasons by HTTP status; other statuses are Redirected (3xx), ServerError (5xx) or HTTPRefused."""


class HttpRefused(McpError):
    """An HTTP status other than success, without a JSON-RPC error. Redirects to other hosts are not followed."""

    reason = "HTTPRefused"

    def __init__(
        self, message: str, *, status: int, retry_after: str | None = None, challenge: bytes | None = None
    ) -> None:
        """`challenge`: value of `WWW-Authenticate` (RFC 9110 section 11.6.1)."""
        super().__init__(message, reason=_refusal_reason(status))
        self.status = status
        self.retry_after = retry_after
        self.challenge = challenge

    @property
    def retry_after_s(self) -> int | None:
        """Seconds of `Retry-After` (RFC 9110 section 10.2.3); None without one, and for its date form."""
        value = self.retry_after
        return int(value) if value is not None and value.isascii() and value.isdigit() and len(value) <= 7 else None


def _refusal_reason(status: int) -> str:
    if status in REFUSALS:
        return REFUSALS[status]
    if 300 <= status < 400:
        return "Redirected"
    return "ServerError" if status >= 500 else "HTTPRefused"


class RpcError(McpError):
    """The server answered with a JSON-RPC error (JSON-RPC 2.0 section 5.1).

    `code` and `message` are the server's, `data` its raw JSON or None, `status` the HTTP status (0 without HTTP).
    """

    reason = "RPCError"

    def __init__(self, code: int, message: str, data: bytes | None = None, *, status: int = 0) -> None:
        super().__init__(f"the server answered with error {code}: {message}")
        self.code = code
        self.message = message
        self.data = data
        self.status = status


class HandshakeRefused(McpError):
    """The server answered `initialize` with a JSON-RPC error, so the request that needed the connection was not sent.

    `code` and `message` are the server's, `status` is the HTTP status (0 without HTTP).
    """

    reason = "RPCError"

    def __init__(self, code: int, message: str, *, status: int = 0, server: str = "") -> None:
        """`server`: name of the server, for a message that stands alone."""
        name = f"server {server}" if server else "the server"
        advice = "its log says why; check its configuration and credential"
        super().__init__(f"{name} refused the connection (initialize): {message} (error {code}); {advice}")
        self.code = code
        self.message = message
        self.status = status

    @classmethod
    def of(cls, error: RpcError) -> HandshakeRefused:
        """Make the exception for the JSON-RPC error with which a server answered `initialize`."""
        return cls(error.code, error.message, status=error.status)

    def with_server(self, server: str) -> HandshakeRefused:
        """Copy the exception, with the server's name in its message."""
        return HandshakeRefused(self.code, self.message, status=self.status, server=server)
