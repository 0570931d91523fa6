"""Messages of clients as `endpoint.inbound` classifies them.

Declarations, apart from `inbound`: classes that msgspec makes are not compiled.
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
    """A notification, which is not answered."""

    modern: bool
    method: str
    params: RawObject
    session: bytes | None


class ClientResponse(msgspec.Struct, frozen=True):
    """A legacy client's response to a server's request."""

    message: Message
    session: bytes | None


class Rejection(msgspec.Struct, frozen=True):
    """Refusal of a request before it is a call: an HTTP status and a JSON-RPC error."""

    status: int
    code: int
    message: str
    id: bytes = b"null"
    data: bytes | None = None


def reject_crowd(status: int, message: str, ident: bytes = b"null") -> Rejection:
    """Refusal of a request for want of room: 429 where its agent has its share, 503 where nothing is left for all."""
    detail = {"code": RATE_LIMITED, "message": message, "retryAfterMs": RETRY_MS}
    return Rejection(status, jsonrpc.INTERNAL_ERROR, message, ident, jsonrpc.encode({META_ERROR: detail}))


RETRY_MS: Final = 1000
RETRY_AFTER: Final = b"retry-after: %d\r\n" % (RETRY_MS // 1000)
SESSION_ENDED: Final = Rejection(404, jsonrpc.INVALID_REQUEST, "The session has ended")
SESSION_UNKNOWN: Final = Rejection(
    404, jsonrpc.INVALID_REQUEST, "There is no session of this id here: open another one with initialize"
)
NOT_YOURS: Final = Rejection(404, jsonrpc.INVALID_REQUEST, "The session was opened by somebody else: initialize again")
NO_STREAM: Final = Rejection(405, jsonrpc.INVALID_REQUEST, "MCP is spoken by POST; there is no stream to GET")
NOT_RESUMABLE: Final = Rejection(400, jsonrpc.INVALID_REQUEST, "Nothing is kept of that stream here (Last-Event-ID)")


class RawParams(msgspec.Struct, gc=False):
    """Members of `params` that may be large, of any request."""

    meta: Raw = msgspec.field(name="_meta", default=Raw())
    argument: Raw = Raw()
    arguments: Raw = Raw()
    capabilities: Raw = Raw()
    context: Raw = Raw()
    input_responses: Raw = msgspec.field(name="inputResponses", default=Raw())
    notifications: Raw = Raw()


class LargeBody(msgspec.Struct, gc=False):
    """A large body, of which only the size of its parts is looked at."""

    params: Raw = Raw()


class RequestBody(msgspec.Struct, gc=False):
    """Type of a decoded body; the decoder raises msgspec.ValidationError for JSON that is not a request."""

    jsonrpc: Literal["2.0"]
    method: str
    id: Raw | UnsetType = UNSET
    params: RawObject | UnsetType | None = UNSET
