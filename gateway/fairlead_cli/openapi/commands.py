"""`fairlead openapi`: its options and help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairlead_cli.options import OutputOption, show_help
from fairlead_cli.output import Output

openapi = typer.Typer(help="Look at OpenAPI documents as tools.", invoke_without_command=True, callback=show_help)


@openapi.command()
def check(
    document: Annotated[
        str,
        typer.Argument(
            metavar="FILE_OR_URL", help="OpenAPI 3.0 or 3.1 document in JSON or YAML; - reads standard input."
        ),
    ],
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB",
            help="Only operations whose operationId, tag or `METHOD /path` matches. May be given several times.",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="GLOB", help="No operations that match, whatever --include says."),
    ] = None,
    manifest: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="McpServer of this document: its include and exclude apply, and the document must have the security "
            "schemes that its credentials are for.",
        ),
    ] = None,
    output: OutputOption = Output.table,
) -> None:
    """Report what becomes of each operation of an OpenAPI document: a tool, a tool with losses, or none, and why.

    Exits with 1 if an operation cannot become a tool, or if a credential is for a security scheme that the document
    does not have.

    Examples:

        fairlead openapi check openapi.yaml

        fairlead openapi check https://api.example.com/openapi.json --include 'GET *' --exclude admin

        fairlead openapi check openapi.yaml --manifest server.yaml

        fairlead openapi check openapi.yaml --json
    """
    from fairlead_cli.openapi.checking import run_check
    from fairlead_cli.openapi.manifests import read_api

    api = None if manifest is None else read_api(manifest)
    run_check(document, tuple(include or ()), tuple(exclude or ()), output, api)
