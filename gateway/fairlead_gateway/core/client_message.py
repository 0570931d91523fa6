"""What a request to an MCP endpoint is read as, and what it turns out to be.

Declarations only. `endpoint.inbound` makes them; apart from it because what msgspec makes a class of is not compiled.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fairlead_mcp.jsonrpc import RawObject
from fairlead_mcp.messages import Message

Headers: TypeAlias = dict[bytes, bytes]
"""Lower-case name to value; a header that came twice has its values joined by a comma (RFC 9110 section 5.3)."""


class Notification(msgspec.Struct, frozen=True):
    """A notification, which is not answered."""

    modern: bool
    method: str
    params: RawObject
    session: bytes | None


class ClientResponse(msgspec.Struct, frozen=True):
    """A legacy client's response to what a server asked of it."""

    message: Message
    session: bytes | None


class Rejection(msgspec.Struct, frozen=True):
    """The first rung that failed, as an HTTP status and a JSON-RPC error."""

    status: int
    code: int
    message: str
    id: bytes = b"null"
    data: bytes | None = None


class RequestBody(msgspec.Struct, gc=False):
    """What a body is read as. Raises msgspec.ValidationError for JSON that is no request."""

    jsonrpc: Literal["2.0"]
    method: str
    id: Raw | UnsetType = UNSET
    params: RawObject | UnsetType | None = UNSET
