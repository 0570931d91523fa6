"""Explains why a request target is not an MCP endpoint of a subject, with the URL that was probably meant.

Pure module. Only servers that the subject may see are named, so the answer does not disclose any others.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.policy.selection import Selection
from fairlead_gateway.policy.tiers import in_tier
from fairlead_gateway.policy.unready_servers import unready_for
from fairlead_gateway.policy.view import MERGED, server_target

_SERVERS: Final = "/servers/"
_FORM: Final = "the endpoint of a server is /servers/NAMESPACE/NAME/mcp, and /v1/servers lists your servers"


def why_unknown(selection: Selection, identity: Identity, target: bytes) -> str:
    """Explain why a target is unknown. If the target can mean only one visible server, the text names the endpoint of
    this server; otherwise it names the tiers that the subject may use, or the form of a server's endpoint.
    """
    views = selection.seen_by(identity)
    base = target.rpartition(b"/")[0]
    path = unquote(target.decode("latin-1"))
    if path.startswith(_SERVERS) and base not in views:
        servers = _visible_servers(selection, identity, _server_name(path))
        if len(servers) != 1:
            return f"Unknown MCP endpoint: {_FORM}"
        server = servers[0]
        return f"Unknown MCP endpoint: the endpoint of the server {server.name} is {server_target(server).decode()}"
    tiers = ", ".join(tier for tier in selection.snapshot.tiers if in_tier(MERGED, tier) in views) or "none"
    return f"Unknown MCP endpoint or tier; your tiers: {tiers}"


def _server_name(path: str) -> str:
    """Name of the server in `/servers/NAMESPACE/NAME/mcp` or `/servers/NAME/mcp`, with or without a tier."""
    segments = path.removeprefix(_SERVERS).split("/")
    return segments[0] if segments[1] == "mcp" and segments[2:3] != ["mcp"] else segments[1]


def _visible_servers(selection: Selection, identity: Identity, name: str) -> list[ServerKey]:
    views = selection.seen_by(identity)
    ready = [key for key in selection.snapshot.servers if key.name == name and server_target(key) in views]
    return ready + [entry.key for entry in unready_for(selection, identity) if entry.name == name and not entry.removed]
