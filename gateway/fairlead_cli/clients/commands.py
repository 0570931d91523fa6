"""`fairlead client`: its options and help."""

from __future__ import annotations

from typing import Annotated

import typer

from fairlead_cli.clients.options import NameOption, SetupOptions
from fairlead_cli.optiongroups import expand_groups
from fairlead_cli.options import OutputOption, show_help
from fairlead_cli.output import Output

client = typer.Typer(help="Configure MCP clients to use a gateway.", invoke_without_command=True, callback=show_help)


def client_names() -> list[str]:
    """Names of the clients, for completion."""
    from fairlead_api.client_files.known_clients import CLIENTS

    return list(CLIENTS)


@client.command()
@expand_groups
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
    options: SetupOptions = SetupOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Add a gateway to the configuration of an MCP client. The change is shown first; the rest of the file stays.

    Examples:

        fairlead client setup cursor

        fairlead client setup vscode --scope project --dry-run

        fairlead client setup claude-desktop --url https://tools.example.com/mcp --key-file me.key

        fairlead client setup claude-code --url https://tools.example.com/mcp --key-env FAIRLEAD_KEY

        fairlead client setup cursor --undo
    """
    from fairlead_cli.clients.setup import run_setup

    run_setup(name_of_client, options, output)


@client.command("list")
def list_clients(name: NameOption = "fairlead", output: OutputOption = Output.table) -> None:
    """List the configuration files of MCP clients, and which of them use a gateway.

    Example:

        fairlead client list
    """
    from fairlead_cli.clients.setup import print_clients

    print_clients(output, name)
