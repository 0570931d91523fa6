"""Servers that are declared and have no catalog: which of them somebody may know of, and which one a name means.

Pure module. Policies decide as for a server without tools, and for a call by the name of its tool. A server that has a
catalog is never among them, whatever its state: its tools are known.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairlead_api.documents.servers import ON_THE_WAY, ServerEntry, worth_waiting
from fairlead_api.meta import ServerKey
from fairlead_formats.names import SEPARATOR
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.policy.decision import foreseen
from fairlead_gateway.policy.selection import Selection
from fairlead_gateway.policy.view import MERGED, server_target

ID = "mcp."


def unready(selection: Selection) -> Iterator[ServerEntry]:
    """Entries of all servers without a catalog, before policies say who may know of them."""
    servers = selection.snapshot.servers
    return (entry for key, entry in selection.snapshot.entries.items() if key not in servers)


def unready_for(selection: Selection, identity: Identity) -> Iterator[ServerEntry]:
    """Those that somebody may know of."""
    return (entry for entry in unready(selection) if may_know(selection, identity, entry.key))


def may_know(selection: Selection, identity: Identity, server: ServerKey, tool: str | None = None) -> bool:
    """Whether somebody may know of a server without a catalog; with `tool`, because of a call of that name."""
    policies = selection.policies
    if not policies.enforced:
        return True
    return foreseen(policies, selection.views_of(identity).rules.key, server, tool)


def of_tool(selection: Selection, identity: Identity, name: str, target: bytes = MERGED) -> ServerEntry | None:
    """The server without a catalog whose tool a name may be, at an endpoint: by its prefix, its id (`mcp.SERVER.TOOL`),
    or because its tools have no prefix. None where there is none that the asker may know of.
    """
    for entry, tool in _candidates(selection, name, target):
        if may_know(selection, identity, entry.key, tool):
            return entry
    return None


def of_server(selection: Selection, identity: Identity, name: str) -> ServerEntry | None:
    """The server without a catalog of that `namespace/name`, name or prefix, if the asker may know of it."""
    unready = [*unready_for(selection, identity)]
    exact = [entry for entry in unready if str(entry.key) == name]
    matches = exact or [entry for entry in unready if name in (entry.name, entry.prefix)]
    return matches[0] if len(matches) == 1 else None


def of_endpoint(selection: Selection, identity: Identity, target: bytes) -> ServerEntry | None:
    """The server without a catalog that an MCP endpoint is of, in any tier, if the asker may know of it."""
    for entry in unready(selection):
        own = server_target(entry.key)
        if (
            not entry.removed
            and (target == own or target.startswith(own + b"/"))
            and may_know(selection, identity, entry.key)
        ):
            return entry
    return None


def on_the_way(selection: Selection, server: ServerKey) -> bool:
    """Whether a server may have a catalog in a moment, and has none."""
    entry = selection.snapshot.entries.get(server)
    return entry is not None and entry.state in ON_THE_WAY and server not in selection.snapshot.servers


def comes_soon(selection: Selection, server: ServerKey) -> bool:
    """Whether to wait for a server: it is on the way, and nothing is known that keeps it."""
    entry = selection.snapshot.entries.get(server)
    return entry is not None and worth_waiting(entry.state, entry.cause) and server not in selection.snapshot.servers


def _candidates(selection: Selection, name: str, target: bytes) -> Iterator[tuple[ServerEntry, str]]:
    prefix, separator, tool = name.partition(SEPARATOR)
    bare = []
    for entry in unready(selection):
        if entry.removed:
            continue
        if target != MERGED:
            if target == server_target(entry.key):
                yield entry, name
        elif separator and entry.prefix == prefix:
            yield entry, tool
        elif name.startswith(f"{ID}{entry.name}."):
            yield entry, name.removeprefix(f"{ID}{entry.name}.")
        elif entry.prefix == "":
            bare.append((entry, name))
    yield from bare
