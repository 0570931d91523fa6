"""Completes names of tools and servers in a shell, by requests to the gateway that the command line names."""

from __future__ import annotations

from typing import Any, Final

import typer

from fairlead_cli.failure import Failure
from fairlead_tools.commands import DEFAULT_URL

TIMEOUT_SECONDS: Final = 1.0
"""Timeout in seconds, short because a person is waiting."""


def tool_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Tools of the gateway; none if the gateway does not respond in time."""
    tools = _fetch(ctx, "/v1/tools")
    return [name for name in _members(tools, "tools", "name") if name.startswith(incomplete)]


def server_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Servers of the gateway, by their names without the namespace where those are unique; none if the gateway does not
    respond in time.
    """
    full_names = _members(_fetch(ctx, "/v1/servers"), "servers", "server")
    short_names = [key.partition("/")[2] for key in full_names]
    names = [
        short if short_names.count(short) == 1 else key for key, short in zip(full_names, short_names, strict=True)
    ]
    return [name for name in names if name.startswith(incomplete)]


def _fetch(ctx: typer.Context, path: str) -> Any:
    from fairlead_cli.connecting import Destination
    from fairlead_cli.rest import ManagementClient

    params = ctx.params
    try:
        client = ManagementClient.of(
            Destination.parse(
                params.get("url") or DEFAULT_URL, params.get("header") or [], None, TIMEOUT_SECONDS, params.get("token")
            )
        )
        return client.get(path)
    except Failure:
        return None


def _members(answer: Any, list_name: str, name: str) -> list[str]:
    entries = answer.get(list_name) if isinstance(answer, dict) else None
    names = (each.get(name) for each in entries or () if isinstance(each, dict))
    return [each for each in names if isinstance(each, str)]
