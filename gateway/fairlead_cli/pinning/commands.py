"""`fairlead diff` and `fairlead approve` with their options and help. No work is done here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairlead_cli.options import OutputOption, ServerArgument
from fairlead_cli.output import Output

_StateDir = Annotated[
    Path | None, typer.Option(help="Folder of a `fairlead up`. By default the one that is running, else a cluster.")
]
_Kubeconfig = Annotated[Path | None, typer.Option(help="Path of a kubeconfig, for a server on a cluster.")]
_Namespace = Annotated[str | None, typer.Option(help="Namespace of the release on the cluster.")]


def diff(
    server: ServerArgument,
    state_dir: _StateDir = None,
    kubeconfig: _Kubeconfig = None,
    namespace: _Namespace = None,
    output: OutputOption = Output.table,
) -> None:
    """Show which definitions of a server with `pin: true` are held back, against those in force.

    Examples:

        fairlead diff time

        fairlead diff tools/search --namespace fairlead-system --json
    """
    from fairlead_cli.pinning.approving import run_diff
    from fairlead_cli.pinning.holding import place_for

    run_diff(place_for(state_dir, str(kubeconfig or ""), namespace), server, output)


def approve(
    server: ServerArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    exactly: Annotated[
        str | None,
        typer.Option("--hash", metavar="HASH", help="Approve what has this hash, as the console or --json shows it."),
    ] = None,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait until it is in force.")] = 15.0,
    state_dir: _StateDir = None,
    kubeconfig: _Kubeconfig = None,
    namespace: _Namespace = None,
    output: OutputOption = Output.table,
) -> None:
    """Put the definitions in force that are held back now, and nothing that the server lists later.

    Examples:

        fairlead approve time

        fairlead approve tools/search --namespace fairlead-system --yes
    """
    from fairlead_cli.pinning.approving import run_approve
    from fairlead_cli.pinning.holding import place_for

    run_approve(place_for(state_dir, str(kubeconfig or ""), namespace), server, yes, wait, output, exactly)
