"""Options of `fairlead client setup`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fairlead_cli.options import DEFAULT_URL, UrlOption

NameOption = Annotated[str, typer.Option("--name", help="Name of the gateway in the client.")]


class ConfigScope(StrEnum):
    """Scopes of a client's configuration file."""

    user = "user"
    project = "project"


@dataclass(frozen=True)
class SetupOptions:
    """The gateway, the credential for it, and how to change the client's file."""

    url: UrlOption = DEFAULT_URL
    key_env: Annotated[
        str | None,
        typer.Option("--key-env", metavar="NAME", help="Environment variable of the client with the API key."),
    ] = None
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file", metavar="FILE", help="File with the API key, which `fairlead bridge` reads at each start."
        ),
    ] = None
    scope: Annotated[ConfigScope, typer.Option(help="Configuration file of the user, or of the current folder.")] = (
        ConfigScope.user
    )
    name: NameOption = "fairlead"
    undo: Annotated[bool, typer.Option("--undo", help="Remove the entry, and restore the entry that it replaced.")] = (
        False
    )
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write without asking.")] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the change without writing it.")] = False
