"""Finds unready servers: servers that are declared but have no catalog yet.

Pure module. Policies treat an unready server like a server without tools. They decide about a call of such a server by
the name of the tool only, because nothing else is known about the tool. A server with a catalog is never unready,
whatever its state.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairlead_api.documents.servers import ON_THE_WAY, ServerEntry, worth_waiting
from fairlead_api.meta import ServerKey
from fairlead_formats.names import SEPARATOR
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.policy.decision import allows_unready
from fairlead_gateway.policy.selection import Selection
from fairlead_gateway.policy.view import MERGED, server_target

ID = "mcp."


def unready_entries(selection: Selection) -> Iterator[ServerEntry]:
    """Entries of all unready servers, regardless of policies."""
    servers = selection.snapshot.servers
    return (entry for key, entry in selection.snapshot.entries.items() if key not in servers)


def unready_for(selection: Selection, identity: Identity) -> Iterator[ServerEntry]:
    """Entries of the unready servers that a principal may see."""
    return (entry for entry in unready_entries(selection) if may_see(selection, identity, entry.key))


def may_see(selection: Selection, identity: Identity, server: ServerKey, tool: str | None = None) -> bool:
    """Whether a principal may see an unready server; with `tool`, whether it may call a tool of that name."""
    policies = selection.policies
    if not policies.enforced:
        return True
    return allows_unready(policies, selection.views_of(identity).rules.key, server, tool)


def unready_by_tool(selection: Selection, identity: Identity, name: str, target: bytes = MERGED) -> ServerEntry | None:
    """The unready server that a call at an endpoint is for, judged by the tool's name: its prefix, its tool id
    (`mcp.SERVER.TOOL`), or, for a name without a prefix, any server whose tools have no prefix. A server that nobody
    has signed in to counts as unready. None if the principal may see no such server.
    """
    for entry, tool in _candidates(selection, name, target):
        if may_see(selection, identity, entry.key, tool):
            return entry
    return None


def unready_by_name(selection: Selection, identity: Identity, name: str) -> ServerEntry | None:
    """The unready server with a `namespace/name`, name or prefix; None if the principal may not see it or if the name
    is ambiguous.
    """
    unready = [*unready_for(selection, identity)]
    exact = [entry for entry in unready if str(entry.key) == name]
    matches = exact or [entry for entry in unready if name in (entry.name, entry.prefix)]
    return matches[0] if len(matches) == 1 else None


def unready_by_endpoint(selection: Selection, identity: Identity, target: bytes) -> ServerEntry | None:
    """The unready server of an MCP endpoint, in any tier; None if the principal may not see it."""
    for entry in unready_entries(selection):
        base = server_target(entry.key)
        if (
            not entry.removed
            and (target == base or target.startswith(base + b"/"))
            and may_see(selection, identity, entry.key)
        ):
            return entry
    return None


def is_starting(selection: Selection, server: ServerKey) -> bool:
    """Whether a server is unready and still starting or being listed."""
    entry = selection.snapshot.entries.get(server)
    return entry is not None and entry.state in ON_THE_WAY and server not in selection.snapshot.servers


def is_worth_waiting(selection: Selection, server: ServerKey) -> bool:
    """Whether a call should wait for an unready server, because the server is starting and has no known problem."""
    entry = selection.snapshot.entries.get(server)
    return entry is not None and worth_waiting(entry.state, entry.cause) and server not in selection.snapshot.servers


def _unlisted(selection: Selection) -> Iterator[ServerEntry]:
    """Entries of all unready servers, and of servers whose catalog contains only the tool `sign_in`."""
    servers = selection.snapshot.servers
    for key, entry in selection.snapshot.entries.items():
        if (server := servers.get(key)) is None or server.catalog.sign_in:
            yield entry


def _candidates(selection: Selection, name: str, target: bytes) -> Iterator[tuple[ServerEntry, str]]:
    prefix, separator, tool = name.partition(SEPARATOR)
    without_prefix = []
    for entry in _unlisted(selection):
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
            without_prefix.append((entry, name))
    yield from without_prefix
