"""Client of a legacy server's session, as an upstream knows it.

Declarations only; apart from `core.upstream_request` because a msgspec Struct is not compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

AnswerServer: TypeAlias = Callable[[bytes], None]
"""Sends a whole JSON-RPC response to the server. Never blocks."""


class ClientPeer(msgspec.Struct, frozen=True, cache_hash=True):
    """A client with a session of its own at legacy servers, in which the client's capabilities were declared."""

    session: bytes
    """Id of the client's session with the gateway, or one that the gateway made for requests of its own."""
    features: bytes
    """Normalized capabilities, raw JSON; `{}` for none."""
    passing: bool = False
    """Whether the session serves one request after the other, of any client: nothing may be kept in it for one."""
