"""`fairlead top`: its options and help."""

from __future__ import annotations

from typing import Annotated

import typer

from fairlead_cli.optiongroups import expand_groups
from fairlead_cli.options import GatewayOptions, OutputOption
from fairlead_cli.output import Output
from fairlead_cli.top.sort_key import SortKey


@expand_groups
def top(
    sort: Annotated[SortKey, typer.Option(help="Order of the rows; can be changed on the screen.")] = SortKey.calls,
    interval: Annotated[float, typer.Option(min=0.5, max=3600, help="Seconds between two readings.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print one reading, with total counts.")] = False,
    gateway: GatewayOptions = GatewayOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Watch calls, errors and latency of servers and tools live.

    Needs a terminal; its last line shows the keys, and `?` explains them. --once prints one reading as tables, --json
    one JSON object per reading; both together print one JSON object. The command shows the servers and tools that
    policies show you, with the calls of all callers.

    Examples:

        fairlead top

        fairlead top --once --sort errors

        fairlead top --json --interval 10 >> load.jsonl

        fairlead top --url https://tools.example.com/mcp --token @key
    """
    from fairlead_cli.top.printing import run_lines, run_once, run_screen

    destination = gateway.destination()
    if once:
        run_once(destination, sort, output)
    elif output is Output.json:
        run_lines(destination, sort, interval)
    else:
        run_screen(destination, sort, interval)
