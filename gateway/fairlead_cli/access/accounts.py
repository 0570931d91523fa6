"""`fairlead accounts` and `fairlead logout`: their options and help."""

from __future__ import annotations

from typing import Annotated

import typer

from fairlead_cli.completing import server_names
from fairlead_cli.optiongroups import expand_groups
from fairlead_cli.options import GatewayOptions, OutputOption
from fairlead_cli.output import Output


@expand_groups
def accounts(
    everybody: Annotated[bool, typer.Option("--everybody", help="Accounts of all users; for administrators.")] = False,
    gateway: GatewayOptions = GatewayOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Show the servers at which you have signed in: since when, until when, and with which scopes.

    Examples:

        fairlead accounts

        fairlead accounts --everybody --json
    """
    from fairlead_cli.access.account_requests import run_accounts

    run_accounts(gateway.destination(), output, everybody=everybody)


@expand_groups
def logout(
    server: Annotated[
        str | None,
        typer.Argument(
            metavar="SERVER", help="Name of the server, or NAMESPACE/NAME. Default: all.", autocompletion=server_names
        ),
    ] = None,
    gateway: GatewayOptions = GatewayOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Sign out at a server, or at all servers: the gateway deletes your grant, and asks the provider to revoke it.

    Calls of the server's tools fail within a second at all replicas, until you sign in again.

    Examples:

        fairlead logout linear

        fairlead logout
    """
    from fairlead_cli.access.account_requests import run_logout

    run_logout(gateway.destination(), server, output)
