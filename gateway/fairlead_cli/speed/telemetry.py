"""`fairlead telemetry show|export|merge`: aggregate latencies of an installation's tools, as a file to publish.

Neither these commands nor the gateway send the file anywhere: a person does.
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
    help="Aggregate latencies of tools, as a file that you may publish. Nothing is sent automatically.",
    invoke_without_command=True,
    callback=show_help,
)
_CONTENT = """\
The file has a line per definition of a tool: the name and version that its server reports, the tool's name, a hash of
its definition, whether it runs locally, on a cluster or elsewhere, the number of successful calls, and their durations
in 15 buckets; and a random number per gateway process, so that nothing is counted twice. It has no arguments, results,
agents, hosts, namespaces or times. Leave out servers with confidential names: --server names the servers to include."""
FilesArgument = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Aggregate files.")]
ServersOption = Annotated[
    list[str] | None,
    typer.Option("--server", metavar="NAME", help="Only servers that report this name; may be given several times."),
]


@telemetry.command()
@expand_groups
def show(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE...", help="Aggregate files, instead of a gateway's aggregates.")
    ] = None,
    server: ServersOption = None,
    gateway: GatewayOptions = GatewayOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Show the content of an export or of files, and describe what the files contain.

    Examples:

        fairlead telemetry show

        fairlead telemetry show merged.json
    """
    from fairlead_cli.speed import aggregating

    try:
        aggregates = aggregating.read(files) if files else aggregating.fetch(gateway.destination())
    except Failure as failure:
        if failure.problem == "NOT_KEPT" and output is not Output.json:
            print(_CONTENT + "\n")  # describes the file although there is no content
        raise
    aggregates = aggregating.select_servers(aggregates, server or [])
    if output is Output.json:
        print_json(aggregating.to_builtins(aggregates))
    else:
        print(_CONTENT + "\n")
        print_table(
            ("SERVER", "VERSION", "TOOL", "WHERE", "CALLS", "P50", "P95", "BADGE"),
            [tuple(map(printable, row)) for row in aggregating.rows(aggregates)],
        )


@telemetry.command()
@expand_groups
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write; it must not exist.")],
    server: ServersOption = None,
    gateway: GatewayOptions = GatewayOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Write the counts of a gateway since its start to a file. The gateway needs FAIRLEAD_AGGREGATES=true.

    Export each replica, and merge the files.

    Example: fairlead telemetry export ours.json --server mcp-time
    """
    from fairlead_cli.speed import aggregating

    aggregates = aggregating.select_servers(aggregating.fetch(gateway.destination()), server or [])
    aggregating.write(file, aggregates)
    _report_file(file, aggregates, output, ". Nothing was sent.")


@telemetry.command()
def merge(
    files: FilesArgument,
    into: Annotated[Path, typer.Option("--into", metavar="FILE", help="File to write; it must not exist.")],
    output: OutputOption = Output.table,
) -> None:
    """Merge files into one, in any order. Files with common counts are rejected.

    Example: fairlead telemetry merge ours.json theirs.json --into all.json
    """
    from fairlead_cli.speed import aggregating

    aggregates = aggregating.read(files)
    aggregating.write(into, aggregates)
    _report_file(into, aggregates, output, "")


def _report_file(file: Path, aggregates: Aggregates, output: Output, suffix: str) -> None:
    calls = sum(line.calls for line in aggregates.tools)
    if output is Output.json:
        print_json({"file": str(file), "definitions": len(aggregates.tools), "calls": calls})
    else:
        print(f"{file}: {len(aggregates.tools)} definitions, {calls} calls{suffix}")
