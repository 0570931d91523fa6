"""`fairlead convert` and `fairlead plan`: their options and help."""

from __future__ import annotations

from typing import Annotated

import typer

from fairlead_cli.models.plan_options import PlanOptions, TaskOptions
from fairlead_cli.optiongroups import expand_groups
from fairlead_cli.options import (
    EndpointOptions,
    OutputOption,
)
from fairlead_cli.output import Output


def convert(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Tools as JSON: list, tool or request; - is stdin.")],
    source: Annotated[str, typer.Option("--from", metavar="FORMAT", help="Format of FILE, such as openai or mcp.")],
    target: Annotated[str, typer.Option("--to", metavar="FORMAT", help="Format to convert to.")],
    strict: Annotated[
        bool, typer.Option("--strict", help="Make tools strict unless that changes their schemas.")
    ] = False,
    model: Annotated[str | None, typer.Option(help="Model that receives the tools, if rules differ by model.")] = None,
    losses: Annotated[
        bool, typer.Option("--losses", help="List everything that the format cannot express, tool by tool.")
    ] = False,
    output: OutputOption = Output.table,
) -> None:
    """Convert tool definitions from any provider's format to any other. Needs no gateway.

    The array of tools goes to standard output, and the losses of the format to standard error.

    Example: fairlead convert --from openai --to anthropic tools.json
    """
    from fairlead_cli.models.converting import run_convert
    from fairlead_formats.tool_format import Options

    run_convert(file, source, target, Options(strict=strict, model=model), output, losses=losses)


@expand_groups
def plan(
    plan_options: PlanOptions = PlanOptions(),
    task: TaskOptions = TaskOptions(),
    gateway: EndpointOptions = EndpointOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Plan which model can hold a conversation and the tools of a gateway. If no model can, the plan says what to cut.
    It also compares the cost of listing all tools, of a tier, and of tool search.

    Example: fairlead plan --model gpt-5-mini --model claude-sonnet-5 --messages chat.json --max-tools 20
    """
    from fairlead_cli.models.planning import run_plan

    run_plan(gateway.destination(), plan_options, task, output)
