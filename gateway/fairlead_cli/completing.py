"""Names that a shell is given to complete a command line with, asked of the gateway that the line is for."""

from __future__ import annotations

from typing import Any, Final

import typer

from fairlead_cli.failure import Failure
from fairlead_tools.commands import DEFAULT_URL

SECONDS: Final = 1.0
"""A person waits for it, with a key pressed."""


def tool_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Tools of the gateway; none where it does not answer at once."""
    tools = _fetch(ctx, "/v1/tools")
    return [name for name in _members(tools, "tools", "name") if name.startswith(incomplete)]


def server_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Servers of the gateway, by their plain names where these are enough; none where it does not answer at once."""
    full_names = _members(_fetch(ctx, "/v1/servers"), "servers", "server")
    plain = [key.partition("/")[2] for key in full_names]
    names = [short if plain.count(short) == 1 else key for key, short in zip(full_names, plain, strict=True)]
    return [name for name in names if name.startswith(incomplete)]


def _fetch(ctx: typer.Context, path: str) -> Any:
    from fairlead_cli.connecting import Destination
    from fairlead_cli.rest import Plane

    given = ctx.params
    try:
        plane = Plane.of(
            Destination.parse(
                given.get("url") or DEFAULT_URL, given.get("header") or [], None, SECONDS, given.get("token")
            )
        )
        return plane.get(path)
    except Failure:
        return None


def _members(answer: Any, many: str, name: str) -> list[str]:
    every = answer.get(many) if isinstance(answer, dict) else None
    names = (each.get(name) for each in every or () if isinstance(each, dict))
    return [each for each in names if isinstance(each, str)]
