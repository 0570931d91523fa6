"""Identifies the client for which the gateway opens a session with a legacy server.

The class is in a module of its own, because mypyc does not compile a msgspec Struct.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

AnswerServer: TypeAlias = Callable[[bytes], None]
"""Sends a whole JSON-RPC response to the server. Never blocks."""


class ClientPeer(msgspec.Struct, frozen=True, cache_hash=True):
    """A client for which the gateway opens sessions with legacy servers that declare the client's capabilities.

    Clients without a `ClientPeer` share one session per server.
    """

    session: bytes
    """Id of the client's session with the gateway, or an id that the gateway created for its own requests."""
    features: bytes
    """Normalized capabilities, raw JSON; `{}` for none."""
    is_transient: bool = False
    """Whether the sessions serve several clients, one after the other, so that no client's state may stay in them."""
    person: bytes = b""
    """Outbound user of these clients; empty for clients of all users, and if `session` identifies the user."""
