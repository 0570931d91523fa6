"""`fairlead diff` and `fairlead approve` with their options and help. No work is done here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairlead_cli.options import (
    GatewayOption,
    HeaderOption,
    OutputOption,
    ServerArgument,
    StateDirOption,
    TimeoutOption,
    TokenOption,
)
from fairlead_cli.output import Output

_Kubeconfig = Annotated[Path | None, typer.Option(help="Path of a kubeconfig, for a server on a cluster.")]
_Namespace = Annotated[str | None, typer.Option(help="Namespace of the release on the cluster.")]


def diff(
    server: ServerArgument,
    state_dir: StateDirOption = None,
    kubeconfig: _Kubeconfig = None,
    namespace: _Namespace = None,
    url: GatewayOption = None,
    header: HeaderOption = None,
    token: TokenOption = None,
    timeout: TimeoutOption = 30.0,
    output: OutputOption = Output.table,
) -> None:
    """Show which definitions of a server with `pin: true` are held back, against those in force.

    Without options they are those of the `fairlead up` that runs here, else of a cluster.

    Examples:

        fairlead diff time

        fairlead diff time --url https://tools.example.com/mcp

        fairlead diff tools/search --namespace fairlead-system --json
    """
    from fairlead_cli.pinning.approving import run_diff
    from fairlead_cli.pinning.holding import place_for

    location = place_for(state_dir, str(kubeconfig or ""), namespace, url)
    if isinstance(location, str):
        from fairlead_cli.connecting import Destination
        from fairlead_cli.pinning.asking import show_held

        show_held(Destination.parse(location, header or [], None, timeout, token), server, output)
    else:
        run_diff(location, server, output)


def approve(
    server: ServerArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    exactly: Annotated[
        str | None,
        typer.Option("--hash", metavar="HASH", help="Approve what has this hash, as the console or --json shows it."),
    ] = None,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait until it is in force.")] = 15.0,
    state_dir: StateDirOption = None,
    kubeconfig: _Kubeconfig = None,
    namespace: _Namespace = None,
    url: GatewayOption = None,
    header: HeaderOption = None,
    token: TokenOption = None,
    timeout: TimeoutOption = 30.0,
    output: OutputOption = Output.table,
) -> None:
    """Put the definitions in force that are held back now, and nothing that the server lists later.

    Without options they are those of the `fairlead up` that runs here, else of a cluster; a gateway that is named with
    --url approves them for administrators, where it takes approvals.

    Examples:

        fairlead approve time

        fairlead approve time --url https://tools.example.com/mcp

        fairlead approve tools/search --namespace fairlead-system --yes
    """
    from fairlead_cli.pinning.approving import run_approve
    from fairlead_cli.pinning.holding import place_for

    location = place_for(state_dir, str(kubeconfig or ""), namespace, url)
    if isinstance(location, str):
        from fairlead_cli.connecting import Destination
        from fairlead_cli.pinning.asking import approve_held

        destination = Destination.parse(location, header or [], None, timeout, token)
        approve_held(destination, server, yes, wait, output, exactly)
    else:
        run_approve(location, server, yes, wait, output, exactly)
