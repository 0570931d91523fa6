"""Identifies the client for which an upstream opens a session with a legacy server.

It is in a module of its own, as mypyc does not compile a msgspec Struct.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

AnswerServer: TypeAlias = Callable[[bytes], None]
"""Sends a whole JSON-RPC response to the server. Never blocks."""


class ClientPeer(msgspec.Struct, frozen=True, cache_hash=True):
    """A client that has separate sessions with legacy servers, which declare the client's capabilities."""

    session: bytes
    """Id of the client's session with the gateway, or an id that the gateway created for its own requests."""
    features: bytes
    """Normalized capabilities, raw JSON; `{}` for none."""
    passing: bool = False
    """Whether the session serves requests of different clients one after the other, so that it must not have state of
    one client.
    """
