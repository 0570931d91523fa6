"""Options that several commands have in common."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead_cli.completing import server_names, tool_names
from fairlead_cli.failure import USAGE_ERROR, die_on_broken_pipe
from fairlead_cli.output import Output
from fairlead_tools.commands import DEFAULT_URL

if TYPE_CHECKING:
    from fairlead_cli.connecting import Destination

__all__ = ["DEFAULT_URL"]

OutputOption = Annotated[Output, typer.Option("--output", "-o", help="table for people, json for programs.")]
"""Option of every command that prints a result; `tree` adds `--json` to it."""
UrlOption = Annotated[
    str, typer.Option("--url", envvar="FAIRLEAD_URL", help="MCP endpoint of a running gateway, or of any MCP server.")
]
GatewayOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="FAIRLEAD_URL",
        help="MCP endpoint of a gateway, instead of a file, folder or cluster.",
        show_default=False,
    ),
]
"""Gateway that does the work of a command, instead of writing to a file or a cluster."""
StateDirOption = Annotated[
    Path | None,
    typer.Option("--state-dir", help="Folder that `fairlead up` was given with --state-dir.", show_default=False),
]
HeaderOption = Annotated[
    list[str] | None,
    typer.Option(
        "--header", "-H", metavar="NAME:VALUE", help="HTTP header of each request. May be given several times."
    ),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="FAIRLEAD_TOKEN",
        metavar="TOKEN|@FILE",
        help="API key or token for the gateway; @FILE reads it from a file. Prefer the environment variable.",
        show_default=False,
    ),
]
ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="SERVER",
        help="Only this server, with unprefixed tool names: a name, a prefix or NAMESPACE/NAME.",
        autocompletion=server_names,
    ),
]
ServerArgument = Annotated[
    str,
    typer.Argument(
        metavar="SERVER", help="Name or prefix of the server, or NAMESPACE/NAME.", autocompletion=server_names
    ),
]
ToolArgument = Annotated[
    str,
    typer.Argument(
        metavar="TOOL", help="Name of the tool as `fairlead tools` lists it, or its id.", autocompletion=tool_names
    ),
]
ToolsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tools",
        metavar="MODULE|FILE",
        help="Python module or file of custom tools to serve as well. May be given several times.",
        show_default=False,
    ),
]
TimeoutOption = Annotated[float, typer.Option(min=0.1, help="Seconds to wait for a response.")]
RoutesOption = Annotated[
    Path | None,
    typer.Option(
        help="YAML file of routes (lists of models that `fairlead plan` chooses from), context windows and providers. "
        "Read again when it changes."
    ),
]
KubeconfigOption = Annotated[
    Path | None, typer.Option(help="Path of a kubeconfig. Default: KUBECONFIG, ~/.kube/config, or the pod's account.")
]


@dataclass(frozen=True)
class GatewayOptions:
    """Options that name a running gateway, and the credential for it."""

    url: UrlOption = DEFAULT_URL
    header: HeaderOption = None
    token: TokenOption = None
    timeout: TimeoutOption = 30.0

    def destination(self) -> Destination:
        """The endpoint of these options. Raises Failure for invalid options."""
        from fairlead_cli.connecting import Destination

        return Destination.parse(self.url, self.header or [], None, self.timeout, self.token)


@dataclass(frozen=True)
class EndpointOptions(GatewayOptions):
    """Options that name a running gateway, or one of its servers."""

    server: ServerOption = None

    def destination(self) -> Destination:
        """The endpoint of the server, or of the gateway without `--server`. Raises Failure."""
        endpoint = super().destination()
        return endpoint if self.server is None else endpoint.at_server(self.server)


def show_help(context: typer.Context) -> None:
    """Callback of a group of commands: prints its help if no command is given, and exits with USAGE_ERROR."""
    if context.invoked_subcommand is None:
        die_on_broken_pipe()
        print(context.get_help())
        raise typer.Exit(USAGE_ERROR)
