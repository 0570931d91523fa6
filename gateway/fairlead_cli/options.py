"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairlead_cli.output import Output

DEFAULT_URL = "http://127.0.0.1:8080/mcp"

OutputOption = Annotated[Output, typer.Option("--output", "-o", help="table for people, json for programs.")]
UrlOption = Annotated[
    str, typer.Option("--url", envvar="FAIRLEAD_URL", help="MCP endpoint of a running gateway, or of any MCP server.")
]
HeaderOption = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", metavar="NAME:VALUE", help="Sent with each request. May be given several times."),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="FAIRLEAD_TOKEN",
        metavar="TOKEN|@FILE",
        help="API key or token to show to the gateway; @FILE reads it from a file. Better in the environment.",
        show_default=False,
    ),
]
ServerOption = Annotated[
    str | None,
    typer.Option("--server", metavar="NAMESPACE/NAME", help="Only this server, its tools under their own names."),
]
ToolsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tools",
        metavar="MODULE|FILE",
        help="Python module or file of custom tools, served beside the others. May be given several times.",
        show_default=False,
    ),
]
TimeoutOption = Annotated[float, typer.Option(min=0.1, help="Seconds to wait for the answer.")]
RoutesOption = Annotated[
    Path | None,
    typer.Option(help="YAML file of routes (lists of models that `fairlead plan` chooses from) and model windows."),
]
KubeconfigOption = Annotated[
    Path | None, typer.Option(help="Path of a kubeconfig. By default KUBECONFIG, ~/.kube/config, or the pod's account.")
]
