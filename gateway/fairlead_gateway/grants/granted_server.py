"""Finds the server that a stored grant is for."""

from __future__ import annotations

from fairlead_api.meta import ServerKey
from fairlead_mcp.oauth.stored_grant import GrantKey


def granted_server(key: GrantKey) -> ServerKey | None:
    """The server of a key; None for the gateway's own records, such as its registrations at authorization servers."""
    namespace, slash, name = key.server.partition("/")
    return ServerKey(namespace, name) if key.person and slash else None
