"""`fairlead client` with its options and help. No work is done here."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fairlead_cli.options import OutputOption, UrlOption, helped
from fairlead_cli.output import Output
from fairlead_tools.commands import DEFAULT_URL

client = typer.Typer(help="Have MCP clients use a gateway.", invoke_without_command=True, callback=helped)


class ConfigScope(StrEnum):
    """Files that a change goes to."""

    user = "user"
    project = "project"


def client_names() -> list[str]:
    """Names of the clients, for completion."""
    from fairlead_tools.known_clients import CLIENTS

    return list(CLIENTS)


NameOption = Annotated[str, typer.Option("--name", help="Name of the gateway in the client.")]


@client.command()
def setup(
    name_of_client: Annotated[
        str,
        typer.Argument(
            metavar="CLIENT",
            help="claude-code, claude-desktop, cursor, vscode, windsurf, gemini-cli, codex, zed, cline, cline-vscode, "
            "opencode, goose or jetbrains.",
            autocompletion=client_names,
        ),
    ],
    url: UrlOption = DEFAULT_URL,
    key_env: Annotated[
        str | None,
        typer.Option(
            "--key-env", metavar="NAME", help="Environment variable that holds the API key where the client runs."
        ),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file", metavar="FILE", help="File with the API key: `fairlead bridge` reads it at each start."
        ),
    ] = None,
    scope: Annotated[ConfigScope, typer.Option(help="The file of the user, or of this folder.")] = ConfigScope.user,
    name: NameOption = "fairlead",
    undo: Annotated[
        bool, typer.Option("--undo", help="Take the entry out again, and put back what it replaced.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the change, and write nothing.")] = False,
    output: OutputOption = Output.table,
) -> None:
    """Put a gateway into the configuration of an MCP client. The change is shown first; all else in the file stays.

    Examples:

        fairlead client setup cursor

        fairlead client setup vscode --scope project --dry-run

        fairlead client setup claude-desktop --url https://tools.example.com/mcp --key-file me.key

        fairlead client setup claude-code --url https://tools.example.com/mcp --key-env FAIRLEAD_KEY

        fairlead client setup cursor --undo
    """
    from fairlead_cli.clients.setup import SetupWishes, run_setup

    wishes = SetupWishes(url, name, key_env, scope.value, undo=undo, yes=yes, dry_run=dry_run, key_file=key_file)
    run_setup(name_of_client, wishes, output)


@client.command("list")
def listed(name: NameOption = "fairlead", output: OutputOption = Output.table) -> None:
    """List the configuration files of MCP clients, and which of them use a gateway.

    Example:

        fairlead client list
    """
    from fairlead_cli.clients.setup import found_clients

    found_clients(output, name)
