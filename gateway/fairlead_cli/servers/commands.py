"""`fairlead servers`, `refresh`, `events` and `logs`, with their options and help. No work is done here."""

from __future__ import annotations

from typing import Annotated

import typer

from fairlead_cli.completing import server_names
from fairlead_cli.optiongroups import expand_groups
from fairlead_cli.options import (
    GatewayOptions,
    OutputOption,
    ServerArgument,
)
from fairlead_cli.output import Output


@expand_groups
def servers(
    server: Annotated[
        str | None,
        typer.Argument(
            metavar="SERVER",
            help="Its name, or NAMESPACE/NAME; its prefix too. All without it.",
            autocompletion=server_names,
        ),
    ] = None,
    gateway: GatewayOptions = GatewayOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Show the servers: their state and why, restarts, memory, tools, and the p95 of the slowest tool.

    Servers that failed or still start are shown too. What a gateway does not know, or does not tell you, is `-`:
    restarts and memory are known where `fairlead up` runs the servers.

    Examples:

        fairlead servers

        fairlead servers time

        fairlead servers --json
    """
    from fairlead_cli.servers.showing import run_servers

    run_servers(gateway.destination(), server, output)


@expand_groups
def refresh(
    server: ServerArgument,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Whether to wait for what it answers.")] = True,
    gateway: GatewayOptions = GatewayOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Have a server asked for its tools now, without waiting for its interval. One that failed is started again.

    On Kubernetes a container that ended is restarted by the kubelet, in its own time; the server is asked all the same.
    Exit code 1 when the server could not be asked, or did not answer in time.

    Examples:

        fairlead refresh time

        fairlead refresh default/time --no-wait
    """
    from fairlead_cli.servers.refresh import run_refresh

    run_refresh(gateway.destination(), server, wait, output)


@expand_groups
def events(
    tail: Annotated[int, typer.Option("--tail", "-n", min=0, max=1024, help="So many of the last events first.")] = 10,
    gateway: GatewayOptions = GatewayOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Follow what becomes of servers and their tools: connected, disconnected, failed, tools changed; and of the files
    that `fairlead up` reads. Ctrl-C ends it.

    The last events are shown first, with the time of this machine's clock. The gateway keeps 1,024.

    Examples:

        fairlead events

        fairlead events --tail 0

        fairlead events --json
    """
    from fairlead_cli.servers.events import run_events

    run_events(gateway.destination(), output, tail)


@expand_groups
def logs(
    server: ServerArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what it prints. Ctrl-C ends it.")] = False,
    tail: Annotated[
        int | None,
        typer.Option("--tail", "-n", min=0, help="So many of the last lines; without it all that are kept, 128 KiB."),
    ] = None,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Print when each line was printed.")] = False,
    gateway: GatewayOptions = GatewayOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Print what the processes of a server printed: standard error, and on standard output what is not an MCP message.

    Lines such as `--- run 2 started again` say where a restart is. Secrets of the server's environment are taken out.
    In a cluster, Kubernetes keeps what servers print, and the answer is the kubectl command that shows it.

    Examples:

        fairlead logs time

        fairlead logs default/time --follow --tail 20
    """
    from fairlead_cli.servers.logs import run_logs

    destination = gateway.destination()
    run_logs(destination, server, output, tail=tail, follow=follow, timestamps=timestamps)
