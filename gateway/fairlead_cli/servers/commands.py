"""`fairlead refresh` and `fairlead events`: the life of servers, with their options and help. No work is done here."""

from __future__ import annotations

from typing import Annotated

import typer

from fairlead_cli.options import DEFAULT_URL, HeaderOption, OutputOption, TimeoutOption, TokenOption, UrlOption
from fairlead_cli.output import Output


def refresh(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="NAMESPACE/NAME, or the name or prefix alone.")],
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Whether to wait for what it answers.")] = True,
    url: UrlOption = DEFAULT_URL,
    header: HeaderOption = None,
    token: TokenOption = None,
    timeout: TimeoutOption = 30.0,
    output: OutputOption = Output.table,
) -> None:
    """Have a server asked for its tools now, without waiting for its interval.

    Exit code 1 when the server could not be asked, or did not answer in time.

    Examples:

        fairlead refresh time

        fairlead refresh default/time --no-wait
    """
    from fairlead_cli.connecting import Destination
    from fairlead_cli.servers.refresh import run_refresh

    run_refresh(Destination.parse(url, header or [], None, timeout, token), server, wait, output)


def events(
    url: UrlOption = DEFAULT_URL,
    header: HeaderOption = None,
    token: TokenOption = None,
    timeout: TimeoutOption = 30.0,
    output: OutputOption = Output.table,
) -> None:
    """Follow what becomes of servers and their tools: connected, disconnected, tools changed. Ctrl-C ends it.

    Examples:

        fairlead events

        fairlead events --output json
    """
    from fairlead_cli.connecting import Destination
    from fairlead_cli.servers.events import run_events

    run_events(Destination.parse(url, header or [], None, timeout, token), output)
