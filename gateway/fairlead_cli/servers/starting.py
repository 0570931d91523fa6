"""Servers that start while a command runs: it says so and waits, in place of an answer without them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

from fairlead_api.documents.servers import FAILED, OFFLINE, ON_THE_WAY, STOPPED, worth_waiting
from fairlead_cli.connecting import Destination
from fairlead_cli.failure import Failure
from fairlead_cli.output import printable
from fairlead_cli.rest import Plane
from fairlead_cli.servers.showing import sentence
from fairlead_cli.waiting import looks

LIST_SECONDS: Final = 10.0
"""How long a list waits for servers that start."""
NAMED: Final = 5
"""Servers that a line names."""

Server = dict[str, Any]


def servers_of(destination: Destination) -> list[Server]:
    """Servers as the gateway lists them; none where the endpoint is not a gateway, or does not list them."""
    try:
        plane = Plane.of(destination)
        documents = plane.get("/v1/servers")["servers"]
    except (Failure, KeyError, TypeError):
        return []
    only = plane.scope.get("servers")
    servers = documents if isinstance(documents, list) else []
    return [document for document in servers if isinstance(document, dict) and only in (None, document.get("server"))]


def wait_for(destination: Destination, seconds: float, means: Callable[[Server], bool] = lambda server: True) -> bool:
    """Wait while a server starts that is meant, saying so once on standard error. Whether there was one."""
    waited = False
    for _ in looks(seconds):
        starting = [document for document in servers_of(destination) if _may_come(document) and means(document)]
        if not starting:
            return waited
        if not waited and seconds > 0:
            verb = "is" if len(starting) == 1 else "are"
            what = f"{server_names(starting)} {verb} still starting; waiting for up to {seconds:.0f} s"
            print(f"fairlead: {what}", file=sys.stderr)
        waited = True
    return True


def _may_come(server: Server) -> bool:
    """Whether to wait for it: one that something keeps is spoken of, and not waited for."""
    return worth_waiting(str(server.get("state")), str(server.get("cause")))


def has_tool(server: Server, name: str) -> bool:
    """Whether a tool of that name may be of a server that has not listed any: by its prefix, its id, or because its
    tools have none.
    """
    prefix, own = server.get("prefix"), str(server.get("server", "")).rpartition("/")[2]
    if prefix == "" or name.startswith(f"mcp.{own}."):
        return True
    return isinstance(prefix, str) and name.startswith(f"{prefix}__")


def lines_about(servers: Iterable[Server]) -> list[str]:
    """A line each for servers that still start, are stopped, or cannot be used; of a single one it says why."""
    servers = [*servers]
    lines = []
    for verb, states in (("still starting", ON_THE_WAY), ("stopped", {STOPPED}), ("not available", {FAILED, OFFLINE})):
        some = [server for server in servers if server.get("state") in states]
        why = sentence(some[0]) if len(some) == 1 else ""
        if some:
            lines.append(f"{verb}: {printable(why) or f'{server_names(some)}; `fairlead servers` says more'}")
    return lines


def server_names(servers: list[Server]) -> str:
    """Their names, and how many more there are."""
    names = [printable(str(server.get("server", ""))) for server in servers[:NAMED]]
    rest = len(servers) - len(names)
    return ", ".join([*names, f"and {rest} more"] if rest else names)
