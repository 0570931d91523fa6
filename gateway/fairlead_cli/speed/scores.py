"""`fairlead scores` and `fairlead leaderboard`: their options and help, and their output."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from fairlead_cli.optiongroups import expand_groups
from fairlead_cli.options import GatewayOptions, OutputOption
from fairlead_cli.output import Output, duration, print_json, print_table, printable, some_names

MEASURED: Final = "measured"
"""Basis of a score from calls or probes."""


@expand_groups
def scores(
    gateway: GatewayOptions = GatewayOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Show the latency of each measured tool, the tiers that it fits, and whether its declared latency is right.

    Badges depend on the median: Lightning below 50 ms, Fast below 200 ms, Standard below 1 s, else Slow.

    Examples:

        fairlead scores

        fairlead scores --json
    """
    from fairlead_cli.rest import ManagementClient

    answer = ManagementClient.of(gateway.destination()).get("/v1/scores")
    if output is Output.json:
        print_json(answer)
    else:
        _print(answer["tools"])


@expand_groups
def leaderboard(
    category: Annotated[str | None, typer.Option(help="Only this category. Default: all categories.")] = None,
    gateway: GatewayOptions = GatewayOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Rank the tools of a category by their measured medians.

    A tool's categories are set in an McpServer (spec.tools[].categories) or an mcp.json (fairlead.tools).

    Examples:

        fairlead leaderboard

        fairlead leaderboard --category images
    """
    from fairlead_cli.rest import ManagementClient

    query = {} if category is None else {"category": category}
    answer = ManagementClient.of(gateway.destination()).get("/v1/leaderboard", **query)
    if output is Output.json:
        print_json(answer)
        return
    if not answer["boards"]:
        print(
            "No tool has a category. Set categories in spec.tools[].categories of an McpServer, or "
            "fairlead.tools[].categories in an mcp.json."
        )
    for board in answer["boards"]:
        print(printable(board["category"]))
        rows = [(str(entry["rank"]), *_columns(entry["score"])) for entry in board["ranks"]]
        rows += [("-", *_columns(entry)) for entry in board["unranked"]]
        print_table(("RANK", "TOOL", "MEDIAN", "BADGE"), rows)
        print()


def _print(scores: list[dict[str, Any]]) -> None:
    """Print a row for each measured tool; other tools are only named."""
    rows = [_row(score) for score in scores if score["basis"] == MEASURED]
    others = [printable(score["name"]) for score in scores if score["basis"] != MEASURED]
    if rows:
        print_table(("TOOL", "BADGE", "MEDIAN", "TAG", "DECLARED", "SAYS"), rows)
    if not scores:
        print("The gateway has no tools yet.")
    elif others:
        problem = "No tool was measured yet" if not rows else f"Never measured: {some_names(others)}"
        print(
            f"{problem}. `fairlead call` measures a tool; probes measure read-only tools: `fairlead up --probe`, or "
            "spec.calibration.probe of an McpServer on a cluster."
        )


def _row(score: dict[str, Any]) -> tuple[str, ...]:
    honesty = score["honesty"]
    verdict = "" if honesty is None else honesty["verdict"] + ", past its maximum" * honesty["pastMaximum"]
    return (
        printable(score["name"]),
        score["badge"] or "-",
        duration(score["medianMs"]),
        ", ".join(score["tags"]) or "-",
        "-" if honesty is None else duration(honesty["declaredMs"]),
        verdict or "-",
    )


def _columns(score: dict[str, Any]) -> tuple[str, str, str]:
    suffix = " (declared)" * (score["basis"] == "declared")
    return printable(score["name"]), duration(score["medianMs"]) + suffix, score["badge"] or "-"
