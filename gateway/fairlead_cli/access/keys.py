"""`fairlead keys`: creates, lists and revokes API keys in a file, in a Secret or at a gateway. This module has the
options and the help; `key_changes` and `key_requests` do the work and are imported late."""

from __future__ import annotations

from typing import Annotated

import typer

from fairlead_cli.access.keyoptions import KeyOptions, NewKeyFile
from fairlead_cli.optiongroups import expand_groups
from fairlead_cli.options import (
    OutputOption,
    show_help,
)
from fairlead_cli.output import Output

keys = typer.Typer(help="Create, list and revoke API keys.", invoke_without_command=True, callback=show_help)


@keys.command()
@expand_groups
def create(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Name of the key's holder in policies.")],
    group: Annotated[
        list[str] | None, typer.Option("--group", "-g", help="Group of the key's holder; may be repeated.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Lifetime of the key: 12h, 90d. Default: unlimited.")
    ] = None,
    options: KeyOptions = KeyOptions(),
    to_file: NewKeyFile = NewKeyFile(),
    output: OutputOption = Output.table,
) -> None:
    """Create a key and print it once: only its hash is stored. A running gateway accepts the key within a second.

    With --url, the gateway creates the key for a caller with a credential: AGENT is the key's name in lists, and the
    key has the rights of that credential.

    Examples:

        fairlead keys create npc --group game --out npc.key

        fairlead keys create me --state-dir ~/fairlead        (for "fairlead up" with that folder)

        fairlead keys create laptop --expires 30d --url https://tools.example.com/mcp

        fairlead keys create qa --secret fairlead-api-keys --namespace fairlead-system
    """
    from fairlead_cli.access.key_changes import key_location, run_create
    from fairlead_cli.access.key_requests import GatewayKeys
    from fairlead_cli.access.keyoutput import KeyOutput

    key_output = None if to_file.out is None else KeyOutput(to_file.out, overwrite=to_file.overwrite)
    location = key_location(options)
    if isinstance(location, GatewayKeys):
        location.create(agent, group or [], expires, output, key_output)
    else:
        run_create(location, agent, group or [], expires, output, key_output)


@keys.command("list")
@expand_groups
def list_keys(
    options: KeyOptions = KeyOptions(),
    output: OutputOption = Output.table,
) -> None:
    """List the keys by id, agent and groups.

    Example: fairlead keys list --file keys.json
    """
    from fairlead_cli.access.key_changes import key_location, run_list
    from fairlead_cli.access.key_requests import GatewayKeys

    location = key_location(options)
    if isinstance(location, GatewayKeys):
        location.list(output)
    else:
        run_list(location, output)


@keys.command()
@expand_groups
def revoke(
    ident: Annotated[str, typer.Argument(metavar="ID", help="The id of a key, or the key itself.")],
    options: KeyOptions = KeyOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Revoke a key. A running gateway rejects it within a second, and closes streams that were opened with it.

    Example: fairlead keys revoke 3f9a0c2b77d1
    """
    from fairlead_cli.access.key_changes import key_location, run_revoke
    from fairlead_cli.access.key_requests import GatewayKeys

    location = key_location(options)
    if isinstance(location, GatewayKeys):
        location.revoke(ident, output)
    else:
        run_revoke(location, ident, output)
