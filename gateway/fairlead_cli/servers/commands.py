"""`fairlead servers`, `refresh`, `events` and `logs`: their options and help."""

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
            help="Name or prefix of the server, or NAMESPACE/NAME. Default: all servers.",
            autocompletion=server_names,
        ),
    ] = None,
    gateway: GatewayOptions = GatewayOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Show the servers: their state and its reason, restarts, memory, tools, and the p95 of the slowest tool.

    Failed and starting servers are included. `-` stands for a value that the gateway does not have, or does not
    disclose to you: restarts and memory are available if `fairlead up` runs the servers.

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
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Whether to wait for the result.")] = True,
    gateway: GatewayOptions = GatewayOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Request a discovery of a server's tools now, without waiting for its interval. A failed server is started again.

    On Kubernetes, the kubelet restarts an exited container at its own pace; discovery is attempted nevertheless. The
    exit code is 1 if discovery failed or did not finish in time.

    Examples:

        fairlead refresh time

        fairlead refresh default/time --no-wait
    """
    from fairlead_cli.servers.refresh import run_refresh

    run_refresh(gateway.destination(), server, wait, output)


@expand_groups
def events(
    tail: Annotated[int, typer.Option("--tail", "-n", min=0, max=1024, help="Past events to show first.")] = 10,
    gateway: GatewayOptions = GatewayOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Follow the events of servers and their tools: connected, disconnected, failed, tools changed; and of the files
    that `fairlead up` reads. Ctrl-C ends the command.

    Past events are shown first. Times are in this machine's time zone. The gateway stores 1,024 events.

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
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print new lines of output too, until Ctrl-C.")
    ] = False,
    tail: Annotated[
        int | None,
        typer.Option("--tail", "-n", min=0, help="Number of past lines. Default: all that are stored, up to 128 KiB."),
    ] = None,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Print the time of each line.")] = False,
    gateway: GatewayOptions = GatewayOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Print the output of a server's processes: standard error, and standard output except MCP messages.

    Lines such as `--- run 2 started again` mark restarts. Secrets of the server's environment are masked. On a cluster,
    Kubernetes stores the output of servers, and this command prints the kubectl command that shows it.

    Examples:

        fairlead logs time

        fairlead logs default/time --follow --tail 20
    """
    from fairlead_cli.servers.logs import run_logs

    destination = gateway.destination()
    run_logs(destination, server, output, tail=tail, follow=follow, timestamps=timestamps)
