"""The `requestState` of a result that needs more input, and of the request that goes on with it.

Pure module. MCP 2026-07-28, "Multi Round-Trip Requests": opaque to clients, and to a gateway but for the prefix that it
adds and removes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Raw

from fairlead_mcp import jsonrpc

STATE: Final = "requestState"


def rewritten(result: Raw, change: Callable[[str], str], member: str = STATE) -> Raw:
    """A result whose state (or other text member), if it has one, is what `change` makes of it."""
    if b'"%b"' % member.encode() not in bytes(result):
        return result
    try:
        members = jsonrpc.decode_object(result)
        state = jsonrpc.decode_text(members[member])
    except (*jsonrpc.UNREADABLE, KeyError):
        return result
    members[member] = Raw(jsonrpc.encode(change(state)))
    return Raw(jsonrpc.encode(members))


def state_in(params: jsonrpc.RawObject) -> str | None:
    """The state that a request goes on with; None where it has none that can be read."""
    try:
        return jsonrpc.decode_text(params[STATE])
    except (*jsonrpc.UNREADABLE, KeyError):
        return None


def with_state(params: jsonrpc.RawObject, state: str) -> jsonrpc.RawObject:
    """Params with another state."""
    return {**params, STATE: Raw(jsonrpc.encode(state))}
