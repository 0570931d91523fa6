"""Waits for servers that are starting, so that a command's result does not lack their tools."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

from fairlead_api.documents.servers import FAILED, OFFLINE, ON_THE_WAY, SIGN_IN, STOPPED, worth_waiting
from fairlead_cli.connecting import Destination
from fairlead_cli.failure import Failure
from fairlead_cli.output import printable
from fairlead_cli.rest import ManagementClient
from fairlead_cli.servers.showing import sentence, state_of
from fairlead_cli.waiting import attempts

LIST_SECONDS: Final = 10.0
"""Seconds to wait for starting servers before tools are listed."""
MAX_NAMED: Final = 5
"""Maximum number of servers that a line names."""

Server = dict[str, Any]


def servers_of(destination: Destination) -> list[Server]:
    """Servers of the gateway; empty if the endpoint is not a gateway or does not list servers."""
    try:
        client = ManagementClient.of(destination)
        documents = client.get("/v1/servers")["servers"]
    except (Failure, KeyError, TypeError):
        return []
    scoped_server = client.scope.get("servers")
    servers = documents if isinstance(documents, list) else []
    return [
        document
        for document in servers
        if isinstance(document, dict) and scoped_server in (None, document.get("server"))
    ]


def wait_for(
    destination: Destination, seconds: float, is_relevant: Callable[[Server], bool] = lambda server: True
) -> bool:
    """Wait while a server for which `is_relevant` is true is starting. Prints one line on standard error before it
    waits. Returns whether it was necessary to wait.
    """
    has_waited = False
    for _ in attempts(seconds):
        starting_servers = [
            document for document in servers_of(destination) if _is_awaited(document) and is_relevant(document)
        ]
        if not starting_servers:
            return has_waited
        if not has_waited and seconds > 0:
            verb = "is" if len(starting_servers) == 1 else "are"
            notice = f"{server_names(starting_servers)} {verb} still starting; waiting for up to {seconds:.0f} s"
            print(f"fairlead: {notice}", file=sys.stderr)
        has_waited = True
    return True


def _is_awaited(server: Server) -> bool:
    """Whether to wait for a server: it is starting, and its cause does not show that it cannot become ready."""
    return worth_waiting(str(server.get("state")), str(server.get("cause")))


def may_have_tool(server: Server, name: str) -> bool:
    """Whether a server that has not listed tools yet may have a tool of that name, judging by the server's prefix or
    name, or because its tools have no prefix.
    """
    prefix, server_name = server.get("prefix"), str(server.get("server", "")).rpartition("/")[2]
    if prefix == "" or name.startswith(f"mcp.{server_name}."):
        return True
    return isinstance(prefix, str) and name.startswith(f"{prefix}__")


_STATE_LABELS: Final = (
    ("still starting", ON_THE_WAY),
    ("stopped", {STOPPED}),
    ("waiting for a sign-in", {SIGN_IN}),
    ("not available", {FAILED, OFFLINE}),
)
"""Words before the line about some servers, and the states of these servers."""


def lines_about(servers: Iterable[Server]) -> list[str]:
    """One line each for servers that are starting, stopped, not signed in to or not available. The line of a single
    server has the reason.
    """
    servers = [*servers]
    lines = []
    for label, states in _STATE_LABELS:
        matching = [server for server in servers if state_of(server) in states]
        reason = sentence(matching[0]) if len(matching) == 1 else ""
        if matching:
            lines.append(f"{label}: {printable(reason) or f'{server_names(matching)}; see `fairlead servers`'}")
    return lines


def server_names(servers: list[Server]) -> str:
    """Names of the servers, and the number of further servers."""
    names = [printable(str(server.get("server", ""))) for server in servers[:MAX_NAMED]]
    rest = len(servers) - len(names)
    return ", ".join([*names, f"and {rest} more"] if rest else names)
