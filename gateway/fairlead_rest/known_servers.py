"""Servers that a subject may see, by the names that people and programs give them."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

import msgspec

from fairlead_api.documents.servers import OFFLINE, ON_THE_WAY, READY, STOPPED, ServerEntry
from fairlead_api.meta import ServerKey
from fairlead_formats.names import did_you_mean
from fairlead_gateway.core.server import Server
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.problems import UNKNOWN_SERVER, Problem

MOST_KNOWN: Final = 100
"""Servers that a problem names."""
_OVERTAKEN: Final = frozenset({*ON_THE_WAY, OFFLINE, STOPPED})
"""States of an entry that a catalog which is online disproves: the two are separate documents, and arrive apart."""


class KnownServer(msgspec.Struct, frozen=True):
    """Server that a subject may see, whether it ever answered or not."""

    key: ServerKey
    prefix: str | None


def existing(seen: SubjectCatalog) -> list[KnownServer]:
    """Servers that a subject may see, by namespace and name."""
    ready = [KnownServer(server.key, server.catalog.prefix) for server in seen.servers()]
    return sorted(
        [*ready, *(KnownServer(entry.key, entry.prefix) for entry in seen.unready_servers())], key=attrgetter("key")
    )


def find_server(seen: SubjectCatalog, name: str) -> KnownServer:
    """The server of that `namespace/name`, else the only one of that name, prefix or id. Raises Problem."""
    servers = existing(seen)
    for server in servers:
        if str(server.key) == name:
            return server
    plain = name.removeprefix("mcp.")
    matches = [each for each in servers if plain in (each.key.name, each.prefix)]
    if len(matches) == 1:
        return matches[0]
    names = tuple(str(each.key) for each in matches or servers)[:MOST_KNOWN]
    if matches:
        detail = f"{name[:128]!r} may be any of {len(matches)} servers: say namespace/name"
        raise Problem(UNKNOWN_SERVER, detail, existing=names)
    near = did_you_mean(name, [str(each.key) if "/" in name else each.key.name for each in servers])
    hint = "" if near is None else f". Did you mean {near}?"
    raise Problem(UNKNOWN_SERVER, f"no server {name[:128]!r} is served here{hint}", did_you_mean=near, existing=names)


def undisputed(server: Server | None, entry: ServerEntry | None) -> ServerEntry | None:
    """The entry, unless the catalog disproves it."""
    overtaken = entry is not None and entry.state in _OVERTAKEN
    return None if overtaken and server is not None and server.catalog.online else entry


def server_state(server: Server | None, entry: ServerEntry | None) -> tuple[str, str]:
    """State of a server in one word, and the cause in one where it is not ready and one is known."""
    entry = undisputed(server, entry)
    if entry is not None:
        return entry.state, entry.cause if entry.state != READY else ""
    return (OFFLINE if server is not None and not server.catalog.online else READY), ""
