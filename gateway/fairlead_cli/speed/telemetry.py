"""`fairlead telemetry show|export|merge`: how fast tools are in an installation, as a file that it may publish.

Nothing is sent anywhere by these commands, nor by anything else: a file goes where a person sends it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead_cli.failure import Failure
from fairlead_cli.optiongroups import expand_groups
from fairlead_cli.options import GatewayOptions, OutputOption, show_help
from fairlead_cli.output import Output, print_json, print_table, printable

if TYPE_CHECKING:
    from fairlead_gateway.aggregates.file import Aggregates

telemetry = typer.Typer(
    help="How fast tools are, as a file that an installation may publish. Nothing is ever sent by itself.",
    invoke_without_command=True,
    callback=show_help,
)
_CONTENT = """\
The file has a line per definition of a tool: what its server calls itself and its version, the tool's name, a hash of
its definition, whether it runs locally, on a cluster or elsewhere, how many calls succeeded, and how long they took, in
15 buckets; and a random number per gateway process, so that nothing is counted twice. It has no arguments, results,
agents, hosts, namespaces or times. Leave out servers whose names nobody should know: --server names those to keep."""
FilesArgument = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Aggregate files.")]
ServersOption = Annotated[
    list[str] | None,
    typer.Option("--server", metavar="NAME", help="Only servers that call themselves so; may be given several times."),
]


@telemetry.command()
@expand_groups
def show(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE...", help="Aggregate files, in place of a gateway's own.")
    ] = None,
    server: ServersOption = None,
    gateway: GatewayOptions = GatewayOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Show what an export would contain, or what files contain, and what never is in one.

    Examples:

        fairlead telemetry show

        fairlead telemetry show merged.json
    """
    from fairlead_cli.speed import aggregating

    try:
        aggregates = aggregating.read(files) if files else aggregating.ask(gateway.destination())
    except Failure as failure:
        if failure.problem == "NOT_KEPT" and output is not Output.json:
            print(_CONTENT + "\n")  # what it would be
        raise
    aggregates = aggregating.only(aggregates, server or [])
    if output is Output.json:
        print_json(aggregating.plain(aggregates))
    else:
        print(_CONTENT + "\n")
        print_table(
            ("SERVER", "VERSION", "TOOL", "WHERE", "CALLS", "P50", "P95", "BADGE"),
            [tuple(map(printable, row)) for row in aggregating.rows(aggregates)],
        )


@telemetry.command()
@expand_groups
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="To be written; it must not exist.")],
    server: ServersOption = None,
    gateway: GatewayOptions = GatewayOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Write what a gateway has counted since its start into a file. It has to keep it: FAIRLEAD_AGGREGATES=true.

    Ask each replica, and merge the files.

    Example: fairlead telemetry export ours.json --server mcp-time
    """
    from fairlead_cli.speed import aggregating

    aggregates = aggregating.only(aggregating.ask(gateway.destination()), server or [])
    aggregating.write(file, aggregates)
    _report_file(file, aggregates, output, ". Nothing was sent.")


@telemetry.command()
def merge(
    files: FilesArgument,
    into: Annotated[Path, typer.Option("--into", metavar="FILE", help="To be written; it must not exist.")],
    output: OutputOption = Output.table,
) -> None:
    """Add files up into one. The order makes no difference; what is in two of them is refused.

    Example: fairlead telemetry merge ours.json theirs.json --into all.json
    """
    from fairlead_cli.speed import aggregating

    aggregates = aggregating.read(files)
    aggregating.write(into, aggregates)
    _report_file(into, aggregates, output, "")


def _report_file(file: Path, aggregates: Aggregates, output: Output, more: str) -> None:
    calls = sum(line.calls for line in aggregates.tools)
    if output is Output.json:
        print_json({"file": str(file), "definitions": len(aggregates.tools), "calls": calls})
    else:
        print(f"{file}: {len(aggregates.tools)} definitions, {calls} calls{more}")
