"""`fairlead diff` and `fairlead approve`: their options and help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead_cli.optiongroups import expand_groups
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

if TYPE_CHECKING:
    from fairlead_cli.connecting import Destination
    from fairlead_cli.pinning.holding import PinLocation


@dataclass(frozen=True)
class PinOptions:
    """Options that name the location of a server's pins: a folder of `fairlead up`, a cluster, or a gateway."""

    state_dir: StateDirOption = None
    kubeconfig: Annotated[Path | None, typer.Option(help="Path of a kubeconfig, for a server on a cluster.")] = None
    namespace: Annotated[str | None, typer.Option(help="Namespace of the release on the cluster.")] = None
    url: GatewayOption = None
    header: HeaderOption = None
    token: TokenOption = None
    timeout: TimeoutOption = 30.0

    def location(self) -> PinLocation | str:
        """The location of the pins, or the URL of a gateway. Raises Failure."""
        from fairlead_cli.pinning.holding import location_of

        return location_of(self.state_dir, str(self.kubeconfig or ""), self.namespace, self.url)

    def destination(self, url: str) -> Destination:
        """The gateway at a URL. Raises Failure."""
        from fairlead_cli.connecting import Destination

        return Destination.parse(url, self.header or [], None, self.timeout, self.token)


@expand_groups
def diff(
    server: ServerArgument,
    pin_options: PinOptions = PinOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Show the held-back definitions of a server with `pin: true`, compared with those that are served.

    Without options, the server belongs to the `fairlead up` that you run on this machine, else to a cluster.

    Examples:

        fairlead diff time

        fairlead diff time --url https://tools.example.com/mcp

        fairlead diff tools/search --namespace fairlead-system --json
    """
    from fairlead_cli.pinning.approving import run_diff

    location = pin_options.location()
    if isinstance(location, str):
        from fairlead_cli.pinning.asking import show_held

        show_held(pin_options.destination(location), server, output)
    else:
        run_diff(location, server, output)


@expand_groups
def approve(
    server: ServerArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve without asking.")] = False,
    exact_hash: Annotated[
        str | None,
        typer.Option("--hash", metavar="HASH", help="Only definitions with this hash, from the console or --json."),
    ] = None,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait until the definitions are served.")] = 15.0,
    pin_options: PinOptions = PinOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Approve the definitions that are held back now; later changes of the server are held back again.

    Without options, the server belongs to the `fairlead up` that you run on this machine, else to a cluster. With
    --url, the gateway approves the definitions for its administrators, if its installation allows that.

    Examples:

        fairlead approve time

        fairlead approve time --url https://tools.example.com/mcp

        fairlead approve tools/search --namespace fairlead-system --yes
    """
    from fairlead_cli.pinning.approving import run_approve

    location = pin_options.location()
    if isinstance(location, str):
        from fairlead_cli.pinning.asking import approve_held

        destination = pin_options.destination(location)
        approve_held(destination, server, yes, wait, output, exact_hash)
    else:
        run_approve(location, server, yes, wait, output, exact_hash)
