"""Access to `requestState`, which a result that requires input hands to the client for the next request. No I/O.

The state is opaque to clients; the gateway adds and removes a prefix (MCP 2026-07-28, "Multi Round-Trip Requests").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Raw

from fairlead_mcp import jsonrpc

STATE: Final = "requestState"


def rewrite_state(result: Raw, change: Callable[[str], str], member: str = STATE) -> Raw:
    """Apply `change` to the `requestState`, or another string member, of a result that has one."""
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
    """Return the `requestState` of a request's params; None if it is absent or not a string."""
    try:
        return jsonrpc.decode_text(params[STATE])
    except (*jsonrpc.UNREADABLE, KeyError):
        return None


def with_state(params: jsonrpc.RawObject, state: str) -> jsonrpc.RawObject:
    """Return params with another `requestState`."""
    return {**params, STATE: Raw(jsonrpc.encode(state))}
