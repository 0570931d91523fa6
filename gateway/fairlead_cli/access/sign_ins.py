"""`fairlead sign-ins` and `fairlead sign-out`: their options and help."""

from __future__ import annotations

from typing import Annotated

import typer

from fairlead_cli.optiongroups import expand_groups
from fairlead_cli.options import GatewayOptions, OutputOption
from fairlead_cli.output import Output


@expand_groups
def sign_ins(
    everybody: Annotated[bool, typer.Option("--everybody", help="Sign-ins of all users; for administrators.")] = False,
    gateway: GatewayOptions = GatewayOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Show the clients that you have signed in by the gateway's URL: when, for what, and when they were last used.

    Examples:

        fairlead sign-ins

        fairlead sign-ins --everybody --json
    """
    from fairlead_cli.access.sign_in_requests import run_sign_ins

    run_sign_ins(gateway.destination(), output, everybody=everybody)


@expand_groups
def sign_out(
    client: Annotated[
        str | None,
        typer.Argument(metavar="CLIENT", help="Id of a sign-in, or the client's name or host. Default: all."),
    ] = None,
    accounts: Annotated[
        bool, typer.Option("--accounts", help="Without CLIENT: end the accounts at servers too.")
    ] = False,
    person: Annotated[
        str | None, typer.Option("--person", metavar="PERSON", help="Sign-ins of another user; for administrators.")
    ] = None,
    gateway: GatewayOptions = GatewayOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Sign a client out, or all clients: their tokens are rejected within a second at all replicas.

    Examples:

        fairlead sign-out claude.ai

        fairlead sign-out --accounts --person 'jwt:https://login.example.com#ann'
    """
    from fairlead_cli.access.sign_in_requests import run_sign_out

    run_sign_out(gateway.destination(), client, output, person=person, accounts=accounts)
