"""Types of the messages that clients send, and of their rejections.

The types are in a module of their own, because mypyc does not compile classes of msgspec; `endpoint.inbound` parses the
messages.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fairlead_mcp import jsonrpc
from fairlead_mcp.jsonrpc import RawObject
from fairlead_mcp.messages import Message
from fairlead_tools.refusal import META_ERROR, RATE_LIMITED


class Notification(msgspec.Struct, frozen=True):
    """A client's notification, which gets no response."""

    modern: bool
    """Whether the notification is of the modern era."""
    method: str
    params: RawObject
    session: bytes | None
    """`Mcp-Session-Id`; None without one."""


class ClientResponse(msgspec.Struct, frozen=True):
    """A legacy client's response to a server's request."""

    message: Message
    session: bytes | None


class Rejection(msgspec.Struct, frozen=True):
    """Rejection of a client's message by the gateway: an HTTP status and a JSON-RPC error."""

    status: int
    """HTTP status."""
    code: int
    """Code of the JSON-RPC error."""
    message: str
    id: bytes = b"null"
    """Id of the rejected request, raw JSON."""
    data: bytes | None = None
    """`data` of the JSON-RPC error, raw JSON; None without it."""


def limit_rejection(status: int, message: str, ident: bytes = b"null") -> Rejection:
    """Rejection of a request beyond a limit: status 429 for the limit of an agent, 503 for that of the gateway."""
    detail = {"code": RATE_LIMITED, "message": message, "retryAfterMs": RETRY_MS}
    return Rejection(status, jsonrpc.INTERNAL_ERROR, message, ident, jsonrpc.encode({META_ERROR: detail}))


RETRY_MS: Final = 1000
"""Milliseconds after which a client may try again when a limit was reached."""
RETRY_AFTER: Final = b"retry-after: %d\r\n" % (RETRY_MS // 1000)
SESSION_ENDED: Final = Rejection(404, jsonrpc.INVALID_REQUEST, "The session has ended: open a new one with initialize")
SESSION_UNKNOWN: Final = Rejection(
    404, jsonrpc.INVALID_REQUEST, "The gateway has no session with this Mcp-Session-Id: open a new one with initialize"
)
SESSION_OF_ANOTHER: Final = Rejection(
    404, jsonrpc.INVALID_REQUEST, "The session belongs to another principal: open a new one with initialize"
)
NO_STREAM: Final = Rejection(405, jsonrpc.INVALID_REQUEST, "This endpoint has no stream for GET: send requests by POST")
NOT_RESUMABLE: Final = Rejection(
    400,
    jsonrpc.INVALID_REQUEST,
    "The stream of this Last-Event-ID cannot be resumed, as the gateway has no events of it: open a new stream",
)


class RawParams(msgspec.Struct, gc=False):
    """Members of `params` that may be large, in requests of any method; they are not decoded further."""

    meta: Raw = msgspec.field(name="_meta", default=Raw())
    argument: Raw = Raw()
    arguments: Raw = Raw()
    capabilities: Raw = Raw()
    context: Raw = Raw()
    input_responses: Raw = msgspec.field(name="inputResponses", default=Raw())
    notifications: Raw = Raw()


class LargeBody(msgspec.Struct, gc=False):
    """A large body, decoded only to check the size of its parts."""

    params: Raw = Raw()


class RequestBody(msgspec.Struct, gc=False):
    """Decoded body of a request; decoding raises msgspec.ValidationError for JSON that is not a request."""

    jsonrpc: Literal["2.0"]
    method: str
    id: Raw | UnsetType = UNSET
    params: RawObject | UnsetType | None = UNSET
