"""Finds servers that a subject may see, by `namespace/name`, name, prefix or id, and determines their state."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

import msgspec

from fairlead_api.documents.servers import OFFLINE, ON_THE_WAY, READY, STOPPED, ServerEntry
from fairlead_api.meta import ServerKey
from fairlead_formats.names import suggest_name
from fairlead_gateway.core.server import Server
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.problems import UNKNOWN_SERVER, Problem

MAX_NAMES: Final = 100
"""Maximum number of servers that a problem lists."""
_OUTDATED: Final = frozenset({*ON_THE_WAY, OFFLINE, STOPPED})
"""States of a server's entry that are outdated if the server's catalog is online. Entry and catalog are two documents,
and the catalog may arrive first.
"""


class KnownServer(msgspec.Struct, frozen=True):
    """Server that a subject may see, whether or not it has ever answered."""

    key: ServerKey
    prefix: str | None


def visible_servers(catalog: SubjectCatalog) -> list[KnownServer]:
    """Servers that a subject may see, sorted by namespace and name."""
    catalog_servers = [KnownServer(server.key, server.catalog.prefix) for server in catalog.servers()]
    return sorted(
        [*catalog_servers, *(KnownServer(entry.key, entry.prefix) for entry in catalog.unready_servers())],
        key=attrgetter("key"),
    )


def find_server(catalog: SubjectCatalog, name: str) -> KnownServer:
    """Find a server by `namespace/name`, or by a name, prefix or id that only one server has. Raises Problem."""
    servers = visible_servers(catalog)
    for server in servers:
        if str(server.key) == name:
            return server
    short_name = name.removeprefix("mcp.")
    matches = [each for each in servers if short_name in (each.key.name, each.prefix)]
    if len(matches) == 1:
        return matches[0]
    names = tuple(str(each.key) for each in matches or servers)[:MAX_NAMES]
    if matches:
        detail = f"{len(matches)} servers have the name {name[:128]!r}: use namespace/name"
        raise Problem(UNKNOWN_SERVER, detail, existing=names)
    similar_name = suggest_name(name, [str(each.key) if "/" in name else each.key.name for each in servers])
    hint = "" if similar_name is None else f". Did you mean {similar_name}?"
    raise Problem(
        UNKNOWN_SERVER, f"this gateway has no server {name[:128]!r}{hint}", did_you_mean=similar_name, existing=names
    )


def current_entry(server: Server | None, entry: ServerEntry | None) -> ServerEntry | None:
    """Return a server's entry; None if the server's catalog shows that the entry is outdated."""
    is_outdated = entry is not None and entry.state in _OUTDATED
    return None if is_outdated and server is not None and server.catalog.online else entry


def server_state(server: Server | None, entry: ServerEntry | None) -> tuple[str, str]:
    """State of a server in one word, and the cause in one word. The cause is empty if the server is ready, or if the
    cause is unknown.
    """
    entry = current_entry(server, entry)
    if entry is not None:
        return entry.state, entry.cause if entry.state != READY else ""
    return (OFFLINE if server is not None and not server.catalog.online else READY), ""
