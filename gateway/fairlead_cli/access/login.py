"""`fairlead login`: its options and help."""

from __future__ import annotations

from typing import Annotated

import typer

from fairlead_cli.optiongroups import expand_groups
from fairlead_cli.options import GatewayOptions, OutputOption, ServerArgument
from fairlead_cli.output import Output


@expand_groups
def login(
    server: ServerArgument,
    browser: Annotated[
        bool,
        typer.Option("--browser/--no-browser", help="Whether to open the page in a browser, or only print its URL."),
    ] = True,
    key_env: Annotated[
        str | None,
        typer.Option("--key-env", metavar="NAME", help="Read the key from an environment variable instead of asking."),
    ] = None,
    key_stdin: Annotated[
        bool, typer.Option("--key-stdin", help="Read the key from standard input instead of asking.")
    ] = False,
    gateway: GatewayOptions = GatewayOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Sign in at a server where each user has an own account, and wait until the sign-in is complete.

    The command opens a page of the gateway, which says where you are sent. The browser has to run on the gateway's
    machine; at a gateway with authentication, it has to be signed in to the console as the owner of the credential.
    Without a terminal, the page's URL is printed. The link is valid for ten minutes. The exit code is 1 if nobody
    signed in.

    At a server for which each user enters a key, the command asks for it and does not show it. With --key-env or
    --key-stdin it replaces a stored key.

    Examples:

        fairlead login linear

        fairlead login default/linear --no-browser

        fairlead login tickets --key-env TICKETS_KEY
    """
    from fairlead_cli.access.entering_keys import EnteredKeySource
    from fairlead_cli.access.signing_in import run_login

    run_login(gateway.destination(), server, output, browser=browser, key=EnteredKeySource(key_env, stdin=key_stdin))
