"""Repairs the `serverInfo` of a server, so that clients accept it. Pure module."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from fairlead_gateway.core.server import Server
from fairlead_mcp import jsonrpc

_TEXTS: Final = frozenset({"version", "title", "description", "websiteUrl"})
_decode_icons = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def server_info(server: Server) -> bytes | None:
    """The server's raw `serverInfo` without members that clients reject (MCP 2025-11-25, schema, Implementation). A
    version that is not a string is converted to a string. None if `serverInfo` is not a JSON object, or
    its name is not a string.
    """
    info = bytes(server.catalog.server_info)
    try:
        members = jsonrpc.decode_object(info)
    except jsonrpc.UNREADABLE:
        return None
    if not _is_text(members.get("name")):
        return None
    version = members.get("version", Raw(b"null"))
    usable = {name: value for name, value in members.items() if name not in _TEXTS or _is_text(value)}
    if "version" not in usable:
        usable["version"] = Raw(jsonrpc.encode("" if bytes(version) == b"null" else jsonrpc.excerpt(bytes(version))))
    if not _are_icons(usable.get("icons", Raw(b"[]"))):
        del usable["icons"]
    return info if usable == members else jsonrpc.encode(usable)


def _is_text(raw: Raw | None) -> bool:
    return raw is not None and bytes(raw).startswith(b'"')


def _are_icons(raw: Raw) -> bool:
    try:
        return all(_is_text(icon.get("src")) for icon in _decode_icons(raw))
    except jsonrpc.UNREADABLE:
        return False
